"""What another budget would be worth, from what runs now. Pure.

tok/s = C·τ/T, with C requests running, τ tokens per step (the accept length) and T the time of a step. So T is seen
live, and a budget whose τ is known pays as soon as its step takes less than C·τ/(tok/s now).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddtune.profiles.envelope import Entry, match
from ddtune.profiles.model import Profile


@dataclass(frozen=True)
class Worth:
    """One other budget. ``break_even_s`` is the step time below which it makes more than what runs now; None while
    its accept length is not known. ``between``: that length was not measured, but lies between two that were.
    ``bad`` is the cause that it fails with here, or why it is known bad; None when nothing speaks against it.
    """

    budget: int
    accept_length: float | None = None
    between: bool = False
    break_even_s: float | None = None
    bad: str | None = None


def step_s(running: int | None, accept_length: float | None, tokens_per_s: float | None) -> float | None:
    """Seconds of one decode step now; None while nothing runs."""
    if not running or not accept_length or not tokens_per_s:
        return None
    return running * accept_length / tokens_per_s


def worth(
    running: int | None,
    tokens_per_s: float | None,
    profile: Profile | None,
    profiles: Mapping[str, Profile],
    envelope: Sequence[Entry],
    arch: str | None,
) -> tuple[Worth, ...]:
    """Each other budget that a profile or the envelope names for the algorithm of ``profile``, what runs now, in order.

    ``arch`` is such as ``sm_103``. Nothing when what runs has no budget.
    """
    if profile is None or not isinstance(profile.axes.get("budget"), int):
        return ()
    axes, own = profile.axes, int(profile.axes["budget"])
    alike = [one for one in profiles.values() if one.axes.get("algorithm") == axes.get("algorithm")]
    named = {one.axes.get("budget") for one in alike} | {
        value for entry in envelope if entry.arch == arch and entry.cause_axis == "budget" for value in entry.causes
    }
    known = _known(alike)
    found = []
    for budget in sorted(value for value in named if isinstance(value, int) and value != own):
        length, between = _length(budget, known)
        entry = match(envelope, arch or "", "*", {**axes, "budget": budget})
        bad = (entry.cause or "known bad") if entry and entry.bad else None
        found.append(Worth(budget, length, between, step_s(running, length, tokens_per_s), bad))
    return tuple(found)


def _known(profiles: Sequence[Profile]) -> dict[int, float]:
    """Accept length by budget, as recorded; the lowest where profiles differ, so that nothing is promised."""
    found: dict[int, float] = {}
    for one in profiles:
        budget, length = one.axes.get("budget"), one.expect.accept_length
        if isinstance(budget, int) and length is not None:
            found[budget] = min(length, found.get(budget, math.inf))
    return found


def _length(budget: int, known: Mapping[int, float]) -> tuple[float | None, bool]:
    if budget in known:
        return known[budget], False
    below = max((one for one in known if one < budget), default=None)
    above = min((one for one in known if one > budget), default=None)
    if below is None or above is None:
        return None, False
    # It grows about with the logarithm of the budget.
    share = math.log(budget / below) / math.log(above / below)
    return known[below] + share * (known[above] - known[below]), True
