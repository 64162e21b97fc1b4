"""What each profile was last seen to do on a host, noted while it is watched. Pure but for reading and writing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ddtune.config.paths import replace_text
from ddtune.live.snapshot import Snapshot

SMALL, LARGE = 1, 128
NEAR = 0.05
"""How far from LARGE the running requests may be to count as that many."""


@dataclass(frozen=True)
class Measured:
    """Of one profile: the accept length, and tokens a second with 1 and with about 128 running requests."""

    accept_length: float | None = None
    tokens_per_s_1: float | None = None
    tokens_per_s_128: float | None = None
    at: float | None = None


Known = Mapping[str, Measured]


def noted(known: Known, before: Snapshot, now: Snapshot) -> Known:
    """``known``, by profile, after two pictures in a row: a rate counts where the requests stayed the same between."""
    one, two = before.service, now.service
    if two.profile is None or two.profile != one.profile or two.invocation != one.invocation:
        return known
    if two.health != "serving" or not two.tokens_per_s or two.tokens_per_s == one.tokens_per_s:
        return known
    found = replace(known.get(two.profile, Measured()), at=now.at)
    if two.accept_length is not None:
        found = replace(found, accept_length=two.accept_length)
    if one.running == two.running == SMALL:
        found = replace(found, tokens_per_s_1=two.tokens_per_s)
    if all(one is not None and abs(one - LARGE) <= NEAR * LARGE for one in (one.running, two.running)):
        found = replace(found, tokens_per_s_128=two.tokens_per_s)
    return {**known, two.profile: found}


def read(path: Path, host: str) -> dict[str, Measured]:
    """What is known of a host; nothing where there is no such file or it is another's."""
    try:
        told = json.loads(path.read_text(encoding="utf-8")).get(host) or {}
        return {str(name): Measured(**one) for name, one in told.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write(path: Path, host: str, known: Known) -> None:
    """Put a host's numbers beside those of the others, so that a reader sees the old file or the new one."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        whole = whole if isinstance(whole, dict) else {}
    except (OSError, ValueError):
        whole = {}
    whole[host] = {name: asdict(one) for name, one in known.items()}
    replace_text(path, json.dumps(whole))
