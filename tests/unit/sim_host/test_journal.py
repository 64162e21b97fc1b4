"""The journal answers as journalctl of systemd 252 was seen to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from ddtune.sim.journal import Journal
from ddtune.sim.kernel import watch
from ddtune.sim.nvml import BUS_IDS
from tests.unit.sim_host.manager import Manager, until


def _lines(manager: Manager, name: str, script: str) -> list[dict[str, object]]:
    path = manager.script(name, script)
    manager.unit(f"{name}.service", f"Type=oneshot\nExecStart={path}", wanted=False)
    manager.systemctl("start", name)
    out = manager.run("journalctl", "--no-pager", "-o", "json", "-u", name).stdout
    return [json.loads(line) for line in out.splitlines()]


def test_entries_have_the_real_fields(manager: Manager) -> None:
    entries = _lines(manager, "fields", "echo one; echo two >&2")
    said = [entry for entry in entries if entry["_SYSTEMD_UNIT"] == "fields.service"]
    assert [entry["MESSAGE"] for entry in said] == ["one", "two"]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    for entry in entries:
        assert entry["_BOOT_ID"] == boot
        assert int(str(entry["__REALTIME_TIMESTAMP"])) > 1_700_000_000_000_000
        assert int(str(entry["__MONOTONIC_TIMESTAMP"])) > 0
        assert str(entry["__CURSOR"]).startswith("s=")
    managed = [entry for entry in entries if entry.get("UNIT") == "fields.service"]
    assert {entry["SYSLOG_IDENTIFIER"] for entry in managed} == {"systemd"}
    assert {entry["_PID"] for entry in managed} == {"1"}
    assert {entry["INVOCATION_ID"] for entry in managed} == {said[0]["_SYSTEMD_INVOCATION_ID"]}
    assert said[0]["SYSLOG_IDENTIFIER"] == "fields"
    assert str(said[0]["_PID"]).isdigit()
    kept = (manager.root / "var/log/journal.jsonl").read_text().splitlines()
    assert entries[0] in [json.loads(line) for line in kept]


def test_odd_text_comes_as_the_real_one_gives_it(manager: Manager) -> None:
    long, longest = "x" * 4088, "y" * 4087
    entries = _lines(manager, "odd", rf"printf 'a\377b\n\n\033[1mbold\ntab\tö\n{long}\n{longest}\nlast'")
    messages = [entry["MESSAGE"] for entry in entries if entry["_SYSTEMD_UNIT"] == "odd.service"]
    assert messages == [[97, 255, 98], list(b"\x1b[1mbold"), "tab\tö", None, longest, "last"]
    assert long in manager.run("journalctl", "-o", "cat", "-u", "odd").stdout.splitlines()


def test_a_cursor_parts_what_was_from_what_comes(manager: Manager) -> None:
    entries = _lines(manager, "cursor", "for i in 1 2 3 4 5; do echo $i; done")
    third = next(entry for entry in entries if entry["MESSAGE"] == "3")
    after = ("--no-pager", "-o", "cat", "-u", "cursor", f"--after-cursor={third['__CURSOR']}")
    rest = manager.run("journalctl", *after).stdout.splitlines()
    assert rest[:2] == ["4", "5"]
    assert manager.run("journalctl", *after, "-n", "1").stdout == "4\n"
    assert manager.run("journalctl", "-o", "cat", "-u", "cursor", "-n", "1").stdout.endswith(
        "Finished cursor.service.\n"
    )
    shown = manager.run("journalctl", "--no-pager", "-u", "cursor", "-n", "0", "--show-cursor").stdout
    assert shown.startswith("-- No entries --\n-- cursor: s=")
    bad = manager.run("journalctl", "--after-cursor=bad", check=False)
    assert (bad.returncode, bad.stderr) == (1, "Failed to seek to cursor: Invalid argument\n")
    other = str(third["__CURSOR"]).replace("s=", "s=" + "0" * 32, 1)[: 2 + 32] + str(third["__CURSOR"])[34:]
    gone = manager.run("journalctl", "-o", "cat", "-u", "cursor", f"--after-cursor={other}").stdout.splitlines()
    assert {"1", "5"} <= set(gone)


def test_following_starts_behind_the_cursor_and_ends_with_its_reader(manager: Manager) -> None:
    entries = _lines(manager, "early", "echo early")
    script = manager.script("followed", "for i in $(seq 40); do echo line $i; done; sleep 1000")
    manager.unit("followed.service", f"ExecStart={script}\nKillMode=mixed")
    argv = [str(manager.root / "usr/bin/journalctl"), "--no-pager", "-o", "json", "-f", "-u", "followed"]
    follower = subprocess.Popen([*argv, f"--after-cursor={entries[-1]['__CURSOR']}"], stdout=subprocess.PIPE)
    assert follower.stdout is not None
    manager.systemctl("start", "followed")
    said = [json.loads(follower.stdout.readline())["MESSAGE"] for _ in range(41)]
    assert [text for text in said if text.startswith("line")] == [f"line {at}" for at in range(1, 41)]
    manager.systemctl("stop", "followed")
    assert json.loads(follower.stdout.readline())["MESSAGE"] == "Stopping followed.service..."
    follower.stdout.close()
    assert until(follower.poll, lambda code: code is not None) == 0


def test_an_illegal_access_leaves_one_xid_for_each_rank_and_start(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl", "b300")
    watch(journal)
    text = "[2026-11-29 19:00:00 TP3] Scheduler hit an exception: CUDA error: an illegal memory access was encountered"
    for invocation in ("a", "a", "b"):
        header = {"unit": "x.service", "invocation": invocation, "pid": 77, "identifier": "python"}
        journal.unit(header, text)
        journal.unit(header, text.replace("TP3", "TP5"))
    kernel = [entry for entry in journal.after(0) if entry.kernel]
    heads = [entry.fields["MESSAGE"].partition(", name")[0] for entry in kernel]
    assert heads == [f"NVRM: Xid (PCI:{BUS_IDS[rank].lower()[4:-2]}): 31, pid=77" for rank in (3, 5, 3, 5)]
    assert "_SYSTEMD_UNIT" not in kernel[0].fields


def test_the_kernel_has_a_stream_of_its_own(manager: Manager) -> None:
    _lines(manager, "faulty", "echo 'TP2 CUDA error: an illegal memory access was encountered'")
    said = until(lambda: manager.run("journalctl", "--no-pager", "-k", "-o", "json").stdout)
    entry = json.loads(said.splitlines()[-1])
    assert (entry["_TRANSPORT"], entry["SYSLOG_IDENTIFIER"]) == ("kernel", "kernel")
    assert entry["MESSAGE"].startswith("NVRM: Xid (PCI:0000:52:00): 31, pid=")


def test_a_follower_that_is_killed_leaves_nothing(manager: Manager) -> None:
    argv = [str(manager.root / "usr/bin/journalctl"), "-f", "-n", "0", "-u", "nobody"]
    follower = subprocess.Popen(argv, stdout=subprocess.PIPE)
    follower.send_signal(signal.SIGTERM)
    assert follower.wait(10) == -signal.SIGTERM
    manager.systemctl("daemon-reload")


@pytest.mark.parametrize("form", ["short", "cat"])
def test_a_journal_without_entries_says_so(manager: Manager, form: str) -> None:
    assert manager.run("journalctl", "-u", "none", "-o", form).stdout == "-- No entries --\n"
    assert os.path.exists(manager.root / "var/log/journal.jsonl")
