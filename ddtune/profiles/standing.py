"""What a release stands for on a host and engine build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROBATION_S = 3 * 86400.0


def of(release: str | None, state: Mapping[str, Any], known_bad: bool = False, now: float | None = None) -> str:
    """``adopted``, ``probation``, ``proven``, ``unproven``, ``failed`` or ``known-bad``.

    ``state`` is the helper's answer to ``state``; ``known_bad`` is what the envelope says of the release's axes;
    ``now`` is the host's wall clock, in seconds since the epoch. A release of another build than the present one is
    unproven: its days were another engine's.
    """
    if release is None:
        return "known-bad" if known_bad else "unproven"
    if release in (state.get("quarantine") or ()):
        return "failed"
    if _of_another_build(release, state):
        return "known-bad" if known_bad else "unproven"
    probation = state.get("probation") or {}
    if probation.get("release") == release and not _over(probation, now):
        return "probation"
    served = _served_s(release, state.get("history") or (), now)
    if served is not None:
        return "proven" if served >= _probation_s(probation) else "unproven"
    if _adopted(release, state):
        standing = (state.get("site") or {}).get("standing")
        return "unproven" if standing == "unproven" else "adopted"
    return "known-bad" if known_bad else "unproven"


def _over(probation: Mapping[str, Any], now: float | None) -> bool:
    until = probation.get("until")
    return now is not None and isinstance(until, (int, float)) and now >= until


def _probation_s(probation: Mapping[str, Any]) -> float:
    since, until = probation.get("since", probation.get("at")), probation.get("until")
    if isinstance(since, (int, float)) and isinstance(until, (int, float)):
        return float(until - since)
    return PROBATION_S


def _served_s(release: str, history: Any, now: float | None) -> float | None:
    """How long ``release`` was stable after its last commit, in seconds; None when it was never committed."""
    begun: float | None = None
    ended: float | None = None
    for line in history:
        target = (line.get("to") or {}).get("release")
        if line.get("event") == "committed" and target == release:
            begun, ended = float(line.get("at") or 0.0), None
        elif begun is not None and ended is None and _moves_stable(line) and target != release:
            ended = float(line.get("at") or 0.0)
    if begun is None:
        return None
    end = ended if ended is not None else now
    return 0.0 if end is None else end - begun


def _moves_stable(line: Mapping[str, Any]) -> bool:
    return line.get("event") in ("committed", "adopted", "late_crash")


def _adopted(release: str, state: Mapping[str, Any]) -> bool:
    adopted = (state.get("site") or {}).get("adopted")
    own = adopted.get("release") if isinstance(adopted, Mapping) else None
    history = state.get("history") or ()
    by_history = any(
        line.get("event") == "adopted" and (line.get("to") or {}).get("release") == release for line in history
    )
    only = not any(line.get("event") == "committed" for line in history)
    return own == release or by_history or (only and (state.get("stable") or {}).get("release") == release)


def _of_another_build(release: str, state: Mapping[str, Any]) -> bool:
    present = (state.get("site") or {}).get("build")
    metas = [state.get("stable") or {}, state.get("previous") or {}, *(state.get("releases") or ())]
    meta: Mapping[str, Any] = next((one for one in metas if one.get("release") == release), {})
    built = (meta.get("meta") or meta).get("build")
    return bool(present and built and present != built)
