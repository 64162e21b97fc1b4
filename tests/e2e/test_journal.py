"""What the collector asks of journalctl, asked of the real one."""

from __future__ import annotations

import json
from typing import Any

from ddtune.onhost.collect_journal import JSON, Follower
from ddtune.onhost.collect_outbox import Outbox
from tests.e2e.guest import Guest

UNIT = "chatter.service"
SCRIPT = (
    "import sys; out = sys.stdout\n"
    "for n in range(30): print(f'line {n}', flush=True)\n"
    "print('Watchdog timeout reqs=[' + 'secret ' * 20000, flush=True)\n"
    "print('behind it', flush=True)\n"
)


def _entries(guest: Guest, *arguments: str) -> list[dict[str, Any]]:
    """What a follower makes of the lines that journalctl prints in two seconds."""
    found = guest.console(
        ["timeout", "2", "journalctl", "--no-pager", *JSON, "-u", UNIT, *arguments, "-f"], check=False
    )
    outbox = Outbox()
    follower = Follower("unit", ["journalctl"], 200, None, outbox, lambda _text: None)
    follower._read_lines(found.stdout)
    lines = [json.loads(line) for line in iter(outbox.take, None)]
    return [one for line in lines if line["t"] == "log" for one in line["entries"]]


def test_long_lines_come_with_their_head_alone_and_reading_goes_on_without_a_hole(shared_guest: Guest) -> None:
    run = ["systemd-run", "--quiet", "--wait", f"--unit={UNIT}", "/usr/bin/python3", "-c", SCRIPT]
    assert shared_guest.console(run).returncode == 0
    entries = _entries(shared_guest, "-n", "200")
    texts = [one["text"] for one in entries]
    assert [text for text in texts if text.startswith("line ")] == [f"line {n}" for n in range(30)]
    (cut,) = [text for text in texts if "secret" in text]
    assert cut.startswith("Watchdog timeout reqs=[")
    assert len(cut) < 9000
    assert "behind it" in texts
    place = texts.index("line 3")
    behind = _entries(shared_guest, f"--after-cursor={entries[place]['cursor']}", "-n", "all")
    assert [one["text"] for one in behind] == texts[place + 1 :]
