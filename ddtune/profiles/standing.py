"""What a release stands for on a host and engine build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PROBATION_S = 3 * 86400.0


def of(release: str | None, state: Mapping[str, Any], known_bad: bool = False, now: float | None = None) -> str:
    """``adopted``, ``probation``, ``proven``, ``unproven``, ``failed`` or ``known-bad``.

    ``state`` is the helper's answer to ``state``, or the collector's line ``ddtune``, whose history is its newest part
    only; ``known_bad`` is what the envelope says of the release's axes; ``now`` is the host's wall clock, in seconds
    since the epoch. A release of another build than the present one is unproven: its days were another engine's. So is
    one that is on trial: what it once was is in question.
    """
    unknown = "known-bad" if known_bad else "unproven"
    if release is None:
        return unknown
    if release in (state.get("quarantine") or ()):
        return "failed"
    if _of_another_build(release, state) or _on_trial(release, state):
        return unknown
    probation = _map(state.get("probation"))
    if probation.get("release") == release:
        if not _over(probation, now):
            return "probation"
        # The commit itself may be older than the history at hand.
        if not probation.get("ended"):
            return "proven"
    history = _maps(state.get("history"))
    served = _served_s(release, history, now)
    if served is not None:
        return "proven" if served >= _probation_s(probation) else "unproven"
    if _adopted(release, state, history):
        return "unproven" if _map(state.get("site")).get("standing") == "unproven" else "adopted"
    return unknown


def _on_trial(release: str, state: Mapping[str, Any]) -> bool:
    txn = _map(state.get("txn"))
    return not txn.get("settled") and release == txn.get("candidate") != txn.get("stable")


def _over(probation: Mapping[str, Any], now: float | None) -> bool:
    until = probation.get("until")
    return now is not None and isinstance(until, (int, float)) and now >= until


def _probation_s(probation: Mapping[str, Any]) -> float:
    since, until = probation.get("since", probation.get("at")), probation.get("until")
    if isinstance(since, (int, float)) and isinstance(until, (int, float)):
        return float(until - since)
    return PROBATION_S


def _served_s(release: str, history: Sequence[Mapping[str, Any]], now: float | None) -> float | None:
    """How long ``release`` was stable after its last commit, in seconds; None when it was never committed."""
    begun: float | None = None
    ended: float | None = None
    for line in history:
        target = _named(line)
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


def _adopted(release: str, state: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> bool:
    if any(line.get("event") == "adopted" and _named(line) == release for line in history):
        return True
    only = not any(line.get("event") == "committed" for line in history)
    return only and _map(state.get("stable")).get("release") == release


def _of_another_build(release: str, state: Mapping[str, Any]) -> bool:
    present = _map(state.get("site")).get("build")
    entries = [_map(state.get(name)) for name in ("running", "stable", "previous")]
    entries += _maps(state.get("releases"))
    entry: Mapping[str, Any] = next((one for one in entries if one.get("release") == release), {})
    built = _map(entry.get("meta") or entry).get("build")
    return bool(present and built and present != built)


def _named(line: Mapping[str, Any]) -> Any:
    return _map(line.get("to")).get("release")


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []
