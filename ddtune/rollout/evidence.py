"""What is known of one operation, as a tar for a ticket: redacted, and with a list of what is not in it."""

from __future__ import annotations

import datetime
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddtune import __version__
from ddtune.config.model import HostConfig
from ddtune.engine.log import sanitise
from ddtune.live.snapshot import Snapshot
from ddtune.live.status import status_json
from ddtune.rollout.link import HostLink
from ddtune.rollout.units import adopted_unit

LIMIT_S = 200.0
NAMES = {"unit": "the service", "kernel": "the kernel", "guard": "the guard of the transaction"}


@dataclass(frozen=True)
class Evidence:
    """The tar's bytes, the files in it, and sentences about what was left out or changed."""

    data: bytes
    contents: tuple[str, ...]
    left_out: tuple[str, ...]


async def evidence(config: HostConfig, op: str, snapshot: Snapshot | None) -> Evidence:
    """Gather and pack. Raises Ambiguous, Refused, the helper's errors and Unreachable."""
    async with HostLink(config, await adopted_unit(config)) as link:
        answer = await link.call("evidence", op=op, timeout=LIMIT_S)
        unit = link.unit
    return pack(config.name, unit, answer, None if snapshot is None else status_json(snapshot))


def pack(host: str, unit: str, answer: Mapping[str, Any], readings: Mapping[str, Any] | None) -> Evidence:
    """The helper's ``evidence`` and what was read just now, as a tar. Pure."""
    files = {f"journal-{name}.log": _log(one) for name, one in answer["journals"].items()}
    files["timeline.txt"] = timeline(answer["history"], answer.get("txn"))
    for side, name in (("from", "release-before"), ("to", "release-tried")):
        if answer["releases"].get(side):
            files[f"{name}.json"] = _json(answer["releases"][side])
    for name in ("history", "txn", "quarantine", "envelope", "ended", "site"):
        if answer.get(name):
            files[f"{name}.json"] = _json(answer[name])
    kept = answer.get("kept") or {}
    for name in ("answers", "readings"):
        if kept.get(name):
            files[f"{name}.jsonl"] = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept[name])
    if readings is not None:
        files["readings-now.json"] = _json(readings)
    left_out = tuple(_left_out(answer, readings))
    manifest = {
        "proto": 1,
        "host": host,
        "unit": unit,
        "op": answer["op"],
        "made": answer["host"]["at"],
        "by": f"ddtune {__version__}",
        "kernel": answer["host"]["kernel"],
        "boot_id": answer["host"]["boot_id"],
        "journals": {"since": answer["window"]["since"], "until": answer["window"]["until"]},
        "redacted": answer["redacted"],
        "contents": sorted(files),
        "left_out": list(left_out),
    }
    files["manifest.json"] = _json(manifest)
    folder = f"ddtune-{host}-{answer['op']}".replace("/", "-")
    return Evidence(_tar(folder, files, float(answer["host"]["at"])), tuple(sorted(files)), left_out)


def timeline(history: Sequence[Mapping[str, Any]], txn: Mapping[str, Any] | None) -> str:
    """What happened, a line each, by the host's wall clock; of the last transaction with its inner times."""
    rows = [(float(line.get("at") or 0.0), _event(line)) for line in history]
    times = (txn or {}).get("times") or {}
    armed = (txn or {}).get("armed_at")
    if isinstance(armed, int | float) and txn is not None:
        begun = float(txn.get("wall_at") or 0.0)
        rows += [(begun + at - armed, f"    {name}") for name, at in times.items() if isinstance(at, int | float)]
    evidence = [one for line in history for one in line.get("evidence") or ()]
    rows += [
        (float(one["at"]), f"    {one.get('source')} {one.get('rank') or ''}: {one.get('text')}")
        for one in evidence
        if isinstance(one.get("at"), int | float)
    ]
    return "".join(f"{_stamp(at)}  {sanitise(text)}\n" for at, text in sorted(rows, key=lambda row: row[0]))


def _event(line: Mapping[str, Any]) -> str:
    target = (line.get("to") or {}).get("profile")
    owner = line.get("owner") or {}
    words = [str(line.get("event")), f"to {target}" if target else ""]
    words += [f"because {line['cause']}" if line.get("cause") else "", f"by {owner['who']}" if owner.get("who") else ""]
    return " ".join(word for word in words if word)


def _left_out(answer: Mapping[str, Any], readings: Mapping[str, Any] | None) -> list[str]:
    redacted, kept = answer["redacted"], answer.get("kept") or {}
    found = ["most answers to the gate's canaries where a check passed, and all but the beginning of a long one"]
    for name, what in (("answers", "answers of the gate and of its canaries"), ("readings", "readings of the time")):
        dropped = (kept.get("dropped") or {}).get(name)
        if not kept.get(name):
            found.append(f"{what}: the host kept none of this operation")
        elif dropped:
            found.append(f"{dropped} lines in the middle of the {what}, over the size limit")
    found.append(f"keys and secret variables, by name and by value ({redacted['keys']} places in text)")
    found.append(f"what the engine logged of requests ({redacted['requests']} lines cut where a request begins)")
    if redacted.get("too_short"):
        found.append(
            f"{redacted['too_short']} key too short to be looked for by its value: read the logs before you send"
        )
    for name, one in answer["journals"].items():
        if one.get("left_out"):
            found.append(f"of the journal of {NAMES[name]}: {one['left_out']}")
        elif not one["lines"]:
            found.append(f"the journal of {NAMES[name]} has no line of that time")
    if not answer.get("txn"):
        found.append("the transaction's own state: another one has taken its place since")
    if readings is None:
        found.append("readings of now: the host gave none")
    return found


def _log(journal: Mapping[str, Any]) -> str:
    return "".join(f"{sanitise(line)}\n" for line in journal["lines"])


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _stamp(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def _tar(folder: str, files: Mapping[str, str], at: float) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in sorted(files.items()):
            data = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(at), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()
