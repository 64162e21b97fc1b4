"""One word for how the service is, from facts and their ages. Pure; watching never generates a token to find out."""

from __future__ import annotations

from dataclasses import dataclass

FRESH_S = 15.0
BUSY_S = 10.0
HANG_S = 60.0
FROZEN_S = 10.0


@dataclass(frozen=True)
class Facts:
    """What the word rests on. Ages are in seconds; ``None`` is not known, or never.

    ``port`` is ``open``, ``silent`` or ``refused``; ``ready`` the status of /ready. Of this run of the main process,
    ``was_open`` says whether it has answered before, ``was_ready`` whether it was ready before, ``had_all`` whether
    all its schedulers were there before. ``moved_age`` is since a token was computed, ``busy_age`` since requests have
    been running without a pause. ``fatal``: the log of this run holds a line after which the engine does not come back.
    """

    unit_age: float | None = None
    active: str | None = None
    sub: str | None = None
    schedulers: int | None = None
    expected: int | None = None
    had_all: bool = False
    was_open: bool = False
    was_ready: bool = False
    port: str | None = None
    ready: int | None = None
    answer_age: float | None = None
    running: int | None = None
    moved_age: float | None = None
    busy_age: float | None = None
    proof_age: float | None = None
    fatal: bool = False


def word(facts: Facts) -> str:
    """``serving``, ``idle``, ``starting``, ``busy``, ``dead``, ``down`` or ``unknown``."""
    if facts.unit_age is None or facts.unit_age > FRESH_S or not facts.active:
        return "unknown"
    if facts.active in ("inactive", "failed") or facts.sub == "auto-restart":
        return "down"
    if facts.active == "deactivating":
        # An engine that is asked to stop first ends what it has begun.
        return "busy" if facts.port == "open" else "down"
    if _is_dead(facts):
        return "dead"
    if facts.port is None:
        return "unknown"
    if facts.port != "open":
        return "busy" if facts.was_open else "starting"
    if facts.ready == 503:
        return "busy" if facts.was_ready else "starting"
    return _by_progress(facts)


def _is_dead(facts: Facts) -> bool:
    """A port may stay open for a minute after the engine behind it died."""
    lost_rank = facts.schedulers is not None and facts.expected is not None and facts.schedulers < facts.expected
    if lost_rank and (facts.had_all or facts.port == "open"):
        return True
    if facts.fatal and facts.port != "open" and not _is_recent(facts.moved_age, 3.0):
        return True
    if facts.port == "refused" and facts.was_open:
        return True
    if facts.port == "silent" and facts.was_open and not _is_recent(facts.answer_age, FROZEN_S):
        return True
    hung = facts.running and not _is_recent(facts.moved_age, HANG_S) and not _is_recent(facts.busy_age, HANG_S)
    return bool(hung)


def _by_progress(facts: Facts) -> str:
    if facts.running is None:
        return "serving" if _is_recent(facts.proof_age, BUSY_S) else "unknown" if facts.ready is None else "idle"
    if facts.running:
        return "serving" if _is_recent(facts.moved_age, BUSY_S) else "busy"
    return "serving" if _is_recent(facts.proof_age, BUSY_S) else "idle"


def _is_recent(age: float | None, limit: float) -> bool:
    return age is not None and age <= limit
