"""The helper's verb that gathers what this host knows of one operation, redacted before it leaves."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from . import clock, journal, kept, releases, schema, store
from .context import Answer, Host, RefusalError
from .paths import UnitPaths
from .redact import redact_argv, redact_env
from .scrub import Scrubber, secrets_kept, secrets_of
from .unit import guard_unit

EVIDENCE: schema.Fields = {"op": schema.op, "bytes": schema.maybe(schema.integer(1000, 1 << 22), 1 << 20)}

_BEFORE_S = 5
_AFTER_S = 120
_LIMIT_S = 60
_LINES = 20000


def evidence(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """All that this host keeps of the operation ``op``: history, transaction, releases, answers, readings, journals.

    ``bytes`` limits the text of each journal. Raises ``RefusalError`` for an operation that this host never had.
    """
    paths, op = host.adopted(unit), fields["op"]
    history = [line for line in releases.history(paths) if line.get("op") == op]
    if not history:
        known = [str(line["op"]) for line in releases.history(paths) if line.get("op")]
        last = f"; the last one was {known[-1]}" if known else ""
        raise RefusalError("unknown", f"{unit} has no operation {op}{last}")
    txn = store.read_json(paths.txn) or {}
    named = {side: (history[0].get(side) or {}).get("release") for side in ("from", "to")}
    found = {side: _release(paths, sha) for side, sha in named.items()}
    scrubber = Scrubber(_secrets(host, unit, paths, found.values()))
    since, until = _window(history)
    sources = {
        "unit": ["-u", unit],
        "kernel": ["-k"],
        "guard": ["-u", f"{guard_unit(op)}.service"],
    }
    said = {name: _journal(host, select, since, until, fields["bytes"], scrubber) for name, select in sources.items()}
    answer = {
        "op": op,
        "history": history,
        "txn": txn if txn.get("op") == op else None,
        "quarantine": releases.quarantined(paths, str(named["to"])) if named["to"] else None,
        "releases": {side: _redacted(one) for side, one in found.items()},
        "envelope": [entry for entry in releases.envelope(paths) if entry.get("op") == op],
        "kept": kept.read(paths, op),
        "ended": store.read_json(paths.ended),
        "site": store.read_json(paths.site),
        "host": {"kernel": platform.release(), "boot_id": clock.boot_id(), "at": clock.wall()},
        "window": {"since": since, "until": until},
    }
    scrubbed = {**scrubber.all(answer), "journals": said}
    counts = {"keys": scrubber.keys, "requests": scrubber.requests, "too_short": scrubber.too_short}
    return {**scrubbed, "redacted": counts}


def _release(paths: UnitPaths, sha: Optional[str]) -> Optional[dict[str, Any]]:
    if not sha:
        return None
    try:
        return {**releases.read(paths, sha), "meta": releases.meta(paths, sha), "release": sha}
    except releases.ReleaseError:
        return None


def _redacted(release: Optional[Mapping[str, Any]]) -> Optional[dict[str, Any]]:
    if release is None:
        return None
    return {**release, "argv": redact_argv(release["argv"]), "env_set": redact_env(release["env_set"])}


def _secrets(host: Host, unit: str, paths: UnitPaths, tried: Iterable[Optional[Mapping[str, Any]]]) -> set[str]:
    found = secrets_kept(paths, [one for one in tried if one])
    process = host.running(unit)
    return found if process is None else found | secrets_of([process.argv], [process.env], None)


def _window(history: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """From the swap (or the arm where there was none) to a while after the last line; epoch seconds."""
    begun = next((line for line in history if line.get("event") == "swapped"), history[0])
    return int(begun.get("at") or 0) - _BEFORE_S, int(history[-1].get("at") or 0) + _AFTER_S


def _journal(
    host: Host, select: Sequence[str], since: int, until: int, room: int, scrubber: Scrubber
) -> dict[str, Any]:
    """The lines between the two times: the first and the last of them where all are too many."""
    command = [host.install.journalctl, "--no-pager", "-o", "json", *select]
    raw = _run([*command, f"--since=@{since}", f"--until=@{until}"])
    if raw is None:
        raw = _run([*command, "-n", str(_LINES)])
    if raw is None:
        return {"lines": [], "left_out": "the journal could not be read"}
    entries = (journal.parse(line, "journal") for line in raw.splitlines())
    lines, dropped = both_ends(
        (
            scrubber.line(f"{entry.at:.6f} [{entry.pid or '-'}] {entry.text}")
            for entry in entries
            if entry is not None and since <= entry.at <= until
        ),
        room,
    )
    return {
        "lines": lines,
        "left_out": f"{dropped} lines in the middle, over the size limit" if dropped else None,
    }


def both_ends(texts: Iterable[str], room: int) -> tuple[list[str], int]:
    """The first and the last of ``texts`` in ``room`` characters, in order, with one line where ``dropped`` others
    stood; and how many those are.
    """
    first: list[str] = []
    last: deque[str] = deque()
    size = kept = dropped = 0
    for text in texts:
        if not last and not dropped and size + len(text) <= room // 2:
            first.append(text)
            size += len(text)
            continue
        last.append(text)
        kept += len(text)
        while kept > room // 2:
            kept -= len(last.popleft())
            dropped += 1
    gap = [f"… {dropped} lines were left out here …"] if dropped else []
    return [*first, *gap, *last], dropped


def _run(argv: Sequence[str]) -> Optional[bytes]:
    environment = {**os.environ, "SYSTEMD_COLORS": "0"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
