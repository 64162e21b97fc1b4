"""systemd and the journal (kind K5 of the field cases), as far as they are read: what comes in, and what is shown."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddtune.onhost.collect_journal import JSON, Follower, parse_entry
from ddtune.onhost.collect_outbox import Outbox
from ddtune.onhost.collect_unit import Unit
from ddtune.onhost.paths import Install, Paths
from ddtune.onhost.unit import Systemctl
from tests.unit.cases.given import READY, STARTED, Given, Watch
from tests.unit.collector_box import entry

ILLEGAL = "[2026-01-01 00:00:00 TP{rank}] CUDA error: an illegal memory access was encountered"
EXITED = "engine.service: Main process exited, code=exited, status=1/FAILURE"


def taken(outbox: Outbox) -> list[dict[str, Any]]:
    return [json.loads(line) for line in iter(outbox.take, None)]


def follow(folder: Path, script: str, cursor: str | None = None) -> list[dict[str, Any]]:
    """What a journalctl that runs ``script`` gives, read to its end."""
    program = folder / "journalctl"
    program.write_text(f'#!/bin/bash\necho "$*" >> {folder}/calls\n{script}\n')
    program.chmod(0o755)
    outbox = Outbox()
    follower = Follower(
        "unit",
        [str(program), *JSON, "-u", "e"],
        200,
        cursor,
        outbox,
        lambda text: outbox.event({"t": "note", "text": text}),
    )
    for descriptor in follower.start(0.0):
        while follower.read(descriptor):
            pass
    follower.ended()
    return taken(outbox)


def test_k5_01(given: Given) -> None:
    """The start limit is what followed; the first crash is the cause."""
    rank = given.rank(3)
    watch = Watch().systemd(STARTED).log(given.lines(READY, ILLEGAL.format(rank=rank)))
    watch.systemd(
        EXITED,
        "engine.service: Failed with result 'exit-code'.",
        f"engine.service: Scheduled restart job, restart counter is at {given.number(3)}.",
        "engine.service: Start request repeated too quickly.",
        "engine.service: Failed with result 'start-limit-hit'.",
    )
    (incident,) = watch.shown.incidents
    assert (incident.cause, incident.rank) == ("illegal_memory_access", f"TP{rank}")
    assert "illegal memory access" in incident.evidence[0].text
    assert any("Main process exited" in line.text for line in incident.evidence[1:])
    watch.unit(active="failed", SubState="failed", Result="start-limit-hit")
    assert watch.shown.service.health == "down"


def test_k5_02(given: Given) -> None:
    """A restart between two looks is a new run, though both say active; the first run's end is an incident."""
    count = given.number(5)
    watch = Watch().unit(NRestarts="0", InvocationID="a", MainPID="7").systemd(STARTED).log(given.lines(READY))
    watch.systemd("engine.service: Main process exited, code=killed, status=11/SEGV")
    watch.systemd(f"engine.service: Scheduled restart job, restart counter is at {count}.", STARTED)
    watch.unit(NRestarts=str(count), InvocationID="b", MainPID="8")
    service = watch.shown.service
    assert (service.state, service.restarts, service.invocation) == ("active", count, "b")
    assert [one.cause for one in watch.shown.incidents] == ["engine_dead"]


def test_k5_04(given: Given, tmp_path: Path) -> None:
    """What runs is read from the process itself, whatever the drop-ins say about its command."""
    budget = given.number(8, 2, 63)
    options = ["-m", "sglang.launch_server", "--speculative-ddtree-budget"]
    folder = tmp_path / "engine.service.d"
    folder.mkdir()
    for number, name in enumerate(("10-tuned.conf", "zz-late.conf"), start=budget + 1):
        words = " ".join([sys.executable, *options, str(number)])
        (folder / name).write_text(f"[Service]\nExecStart=\nExecStart={words}\n")
    argv = [sys.executable, "-c", "input()", *options, str(budget)]
    engine = subprocess.Popen(argv, stdin=subprocess.PIPE)
    try:
        unit = Unit(
            Systemctl(Install(systemctl=str(_systemctl(tmp_path, engine.pid, folder)))),
            Paths(str(tmp_path)),
            "engine.service",
        )
        _wait(lambda: (unit.line() or {}).get("argv") == argv)
        line = unit.line()
    finally:
        engine.communicate(b"\n", timeout=10)
    assert line is not None
    shown = Watch().take(line).shown.service
    assert shown.argv == tuple(argv)
    assert shown.argv[-1] == str(budget)


def _systemctl(folder: Path, pid: int, drop_ins: Path) -> Path:
    """A systemctl that shows a main process, and the drop-ins and the command that they make."""
    command = (drop_ins / "zz-late.conf").read_text().splitlines()[-1]
    program = folder / "systemctl"
    program.write_text(
        f"#!/bin/bash\ncat <<'END'\nActiveState=active\nSubState=running\nMainPID={pid}\nInvocationID=i\n"
        f"NeedDaemonReload=yes\nDropInPaths={' '.join(map(str, sorted(drop_ins.iterdir())))}\n{command}\nEND\n"
    )
    program.chmod(0o755)
    return program


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_k5_05(given: Given) -> None:
    """A restart that took old options is seen: the command line that runs belongs to no release that was asked for."""
    budget = given.number(8)
    argv = ["python3", "-m", "sglang.launch_server", "--speculative-ddtree-budget", str(budget)]
    watch = Watch().unit()
    watch.take({**watch.state.unit, "t": "unit", "argv": argv})
    watch.take({"t": "ddtune", "adopted": True, "running": None, "stable": {"release": "s", "profile": "stable"}})
    service = watch.shown.service
    assert (service.profile, service.stable_profile, service.argv[-1]) == (None, "stable", str(budget))


def test_k5_06(given: Given) -> None:
    """The warning that a unit file changed on disk is no fault."""
    watch = Watch().systemd(STARTED).log(given.lines(READY)).unit(NeedDaemonReload="yes").ready()
    watch.systemd(
        "Warning: The unit file, source configuration file or drop-ins of engine.service changed on disk. "
        "Run 'systemctl daemon-reload' to reload units."
    )
    assert not watch.shown.incidents
    assert watch.shown.service.health == "idle"


def test_k5_13(given: Given, tmp_path: Path) -> None:
    """Reading goes on behind the cursor without a hole, and where the journal has moved on that is marked."""
    cursor = f"s=1;i={given.number(80)}"
    one = entry(2.0, "x", "c2").replace("'", "'\\''")
    lines = follow(tmp_path, f"echo '{one}'", cursor)
    assert [line["t"] for line in lines] == ["log"]
    assert f"--after-cursor={cursor} -n all -f" in (tmp_path / "calls").read_text()
    gone = follow(tmp_path, "echo 'Failed to seek to cursor: Invalid argument' >&2; exit 1", cursor)
    (gap,) = [line for line in gone if line["t"] == "gap"]
    watch = Watch().take(gap)
    assert "no longer holds the place" in watch.shown.log[-1].text
    assert watch.shown.log[-1].kind == "gap"


def test_k5_15(given: Given, tmp_path: Path) -> None:
    """An empty journal for want of permission is said to be that, and Xids are unknown rather than none."""
    hints = (
        "Hint: You are currently not seeing messages from other users and the system.",
        "No journal files were opened due to insufficient permissions.",
    )
    lines = follow(tmp_path, f"echo '{hints[given.sibling]}' >&2; exit 0")
    watch = Watch()
    assert watch.shown.xids == ()
    for line in lines:
        watch.take({**line, "source": "kernel"} if line["t"] == "journal" else line)
    assert any("systemd-journal" in note for note in watch.shown.notes)
    assert watch.shown.xids is None


def test_k5_16(given: Given) -> None:
    """After a reboot all is read anew: nothing of the run before counts for the new one."""
    watch = Watch().take({"t": "hello", "boot_id": "a", "unit": "engine.service"}).unit().ready()
    watch.metrics(f"sglang:num_running_reqs {given.number(4)}\n").later(300)
    watch.take({"t": "hello", "boot_id": "b", "unit": "engine.service"}).unit(None, InvocationID="n", MainPID="9")
    watch.ready(None, "refused")
    service = watch.shown.service
    assert (service.running, service.tokens_per_s, service.health) == (None, None, "starting")


def test_a_line_that_journald_cut_leaves_its_rest_on_the_host(tmp_path: Path) -> None:
    stream = {"_STREAM_ID": "s1"}
    parts = [
        entry(1.0, "Watchdog timeout (self.watchdog_timeout=300) reqs=[", "a", **stream, _LINE_BREAK="line-max"),
        entry(1.0, "a user's words", "b", **stream, _LINE_BREAK="line-max"),
        entry(1.0, "the last of them", "c", **stream),
        entry(1.0, "another rank", "d", _STREAM_ID="s2"),
        entry(1.0, "a line of its own", "e", **stream),
    ]
    (tmp_path / "lines").write_text("\n".join(parts) + "\n")
    (log,) = follow(tmp_path, f"cat {tmp_path}/lines")
    assert [one["cursor"] for one in log["entries"]] == ["a", "d", "e"]
    assert log["entries"][0]["text"].endswith("reqs=[ …")


def test_lines_that_journald_suppressed_are_a_gap() -> None:
    watch = Watch().log(["Suppressed 1234 messages from engine.service"], pid=30)
    assert [(line.kind, line.severity) for line in watch.shown.log] == [("gap", "warning")]


@pytest.mark.parametrize("message", [["first", "second"], [[1], None], {"a": 1}, 7, None, [300, -1, "x"]])
def test_messages_of_odd_shapes(message: object) -> None:
    found = parse_entry(entry(1.0, message, "c").encode())
    assert found is None or isinstance(found["text"], str)
