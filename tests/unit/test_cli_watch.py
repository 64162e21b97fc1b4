"""The watch as a service, and what a status says of one that has died."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from click.testing import CliRunner

from ddtune.cli.watch import _until_signal
from ddtune.cli.watch import watch as watch_command
from ddtune.cli.watch_service import Beats, tell_systemd, unit_text
from ddtune.live.picture import snapshot, watches
from ddtune.live.state import State

SAID = {"owner": {"who": "ada", "host": "box"}, "every_s": 60, "at": 1000.0}


def test_a_dead_watch_is_noticed_by_any_status() -> None:
    (alive,) = watches({"watch": SAID, "at": 1090.0})
    assert (alive.who, alive.age_s, alive.alive) == ("ada on box", 90.0, True)
    dead = snapshot(State("b300", ddtune={"watch": SAID, "at": 1600.0, "adopted": True}), 5.0)
    assert dead.watch is not None
    assert not dead.watch.alive
    assert any("ada on box" in note and "600 s" in note and "ddtune watch b300" in note for note in dead.notes)
    assert watches({"watch": None, "at": 1.0}) == ()
    assert watches({"watch": "x", "at": 1.0}) == ()


def test_a_wall_clock_that_was_set_back_lets_no_dead_watch_live() -> None:
    said = {**SAID, "boottime": 50.0}
    (dead,) = watches({"watch": said, "at": 900.0, "boottime": 650.0})
    assert (dead.age_s, dead.alive) == (600.0, False)
    # After a boot the one clock tells nothing.
    (alive,) = watches({"watch": said, "at": 1060.0, "boottime": 20.0})
    assert (alive.age_s, alive.alive) == (60.0, True)


@pytest.mark.parametrize("mode", ["acts", "tells", "dry"])
def test_a_dead_watch_is_missed_beside_one_that_lives(mode: str) -> None:
    other = {"owner": {"who": "eve", "host": "pc"}, "every_s": 60, "at": 1590.0, "mode": mode}
    said = {**other, "others": [{**SAID, "mode": "acts"}]}
    seen = snapshot(State("b300", ddtune={"watch": said, "at": 1600.0, "adopted": True}), 5.0)
    assert {(one.who, one.alive, one.mode) for one in seen.watches} == {
        ("eve on pc", True, mode),
        ("ada on box", False, "acts"),
    }
    assert seen.watch == seen.watches[0]
    assert seen.watch.alive is (mode != "dry"), "a dry run stands in for nobody"
    (note,) = [note for note in seen.notes if "watch" in note]
    assert "ada on box" in note
    assert ("nobody goes back" in note) is (mode != "acts")


def test_a_dry_run_that_died_is_missed_by_nobody() -> None:
    said = {**SAID, "mode": "dry"}
    assert not [
        note for note in snapshot(State("b300", ddtune={"watch": said, "at": 1600.0}), 5.0).notes if "watch" in note
    ]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDTUNE_CONFIG", "/etc/my folder/100%/config.toml")
    text = unit_text(["b300", "root@10.0.0.7:2222"], 30, only_tell=True)
    path = tmp_path / "ddtune-watch-b300.service"
    path.write_text(text)
    assert f"ExecStart={sys.executable} -m ddtune.cli.main watch b300 root@10.0.0.7:2222 --every 30 --only-tell" in text
    assert 'Environment="DDTUNE_CONFIG=/etc/my folder/100%%/config.toml"' in text
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if path.name in line], done.stderr


def test_a_unit_is_never_printed_for_json() -> None:
    answer = CliRunner().invoke(watch_command, ["b300", "--print-unit", "--json"])
    assert answer.exit_code == 2
    assert json.loads(answer.stdout)["error"]["cause"] == "usage"


def test_signs_of_life_go_to_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        tell_systemd("READY=1")
        assert manager.recv(64) == b"READY=1"
        clock = [1000.0]
        monkeypatch.setattr("time.monotonic", lambda: clock[0])
        beats = Beats(2)
        first, second = beats.of(0), beats.of(1)
        clock[0] += 20
        first()
        assert manager.recv(64) == b"WATCHDOG=1"
        # The other one hangs: nothing more is said, and systemd starts the whole anew.
        clock[0] += 200
        first()
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(64)
        second()
        assert manager.recv(64) == b"WATCHDOG=1"
        # Asked to end while a way back runs: systemd is to wait for it.
        beats.ending = True
        clock[0] += 20
        first()
        assert manager.recv(64) == b"WATCHDOG=1\nEXTEND_TIMEOUT_USEC=150000000"


def test_a_second_signal_ends_it_at_once() -> None:
    running: Future[None] = Future()
    asked = []

    def ask() -> None:
        asked.append(True)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert _until_signal(running, ask) == "asked"
    assert asked == [True]
    assert not running.done()


def test_an_asked_end_is_waited_for_and_its_fault_is_raised() -> None:
    running: Future[None] = Future()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(RuntimeError, match="a bug"):
        _until_signal(running, lambda: running.set_exception(RuntimeError("a bug")))


def test_a_terminal_that_ends_asks_for_the_end_and_nohup_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that a way back would be left in its midst, and the watch be called missed."""
    running: Future[None] = Future()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGHUP)).start()
    assert _until_signal(running, lambda: running.set_result(None)) == "asked"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = Future()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGHUP)).start()
        threading.Timer(0.4, running.set_result, (None,)).start()
        assert _until_signal(running, lambda: None) == "ended"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_a_manager_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    tell_systemd("READY=1")
    assert "NOTIFY_SOCKET" not in os.environ


@pytest.mark.parametrize(
    "host", ["x\nExecStartPre=/bin/touch /tmp/pwned", "x\r", 'a"b', "a b", "-x", "a;b", "b300:x\nUser=root", "$(id)"]
)
def test_what_is_no_host_gets_no_line_in_a_unit(host: str) -> None:
    done = CliRunner().invoke(watch_command, ["--print-unit", "--", "b300", host])
    assert done.exit_code == 2
    assert "[Service]" not in done.output


def test_nothing_of_the_environment_is_a_line_of_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "x\nExecStartPre=/bin/touch /tmp/pwned"
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, evil)
    done = CliRunner().invoke(watch_command, ["--print-unit", "b300"])
    assert (done.exit_code, "ExecStartPre" in done.output) == (0, False)
    monkeypatch.setenv("DDTUNE_CONFIG", f"/etc/{evil}")
    done = CliRunner().invoke(watch_command, ["--print-unit", "b300"])
    assert done.exit_code == 2
    assert "\nExecStartPre" not in done.output


def test_names_with_specifiers_and_backslashes_stay_names() -> None:
    text = unit_text(["fe80::1%eth0", "b300:x\\"], 30, only_tell=False)
    assert "Description=ddtune watch fe80::1%%eth0 b300:x\\\\\nWants=" in text
    assert 'watch fe80::1%%eth0 "b300:x\\\\" --every' in text
