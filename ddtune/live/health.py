"""One word for how the service is, from facts and their ages. Pure; watching never generates a token to find out."""

from __future__ import annotations

from dataclasses import dataclass

FRESH_S = 15.0
BUSY_S = 10.0
HANG_S = 60.0
FROZEN_S = 10.0
COMPILING_S = 120.0
STILL_S = 60.0
STALL_SHOWN_S = 60.0


@dataclass(frozen=True)
class Facts:
    """What the word rests on. Ages are in seconds; ``None`` is not known, or never.

    ``port`` is ``open``, ``silent`` or ``refused``; ``ready`` the status of /ready. Of this run of the main process,
    ``was_open`` says whether it has answered before, ``was_ready`` whether it was ready before, ``had_all`` whether
    all its schedulers were there before. ``moved_age`` is since a token was computed, ``busy_age`` since requests have
    been running without a pause. ``fatal``: the log of this run holds a line after which the engine does not come back.
    ``waiting`` counts requests that HTTP holds. ``phase`` and ``still_s`` (without a new line) are of a start that is
    not over; ``stall`` is for how long, by the engine's own word, nothing was heard of its scheduler.
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
    waiting: int | None = None
    compiled_age: float | None = None
    stall: float | None = None
    phase: str | None = None
    still_s: float | None = None


def judge(facts: Facts) -> tuple[str, str]:
    """``serving``, ``idle``, ``starting``, ``busy``, ``dead``, ``down`` or ``unknown``, and in a few words why."""
    if facts.unit_age is None or facts.unit_age > FRESH_S or not facts.active:
        return "unknown", "systemd was not read of late"
    if facts.active in ("inactive", "failed") or facts.sub == "auto-restart":
        return "down", f"systemd says {facts.sub if facts.sub == 'auto-restart' else facts.active}"
    if facts.active == "deactivating":
        # An engine that is asked to stop first ends what it has begun.
        return ("busy", "it ends what it has begun") if facts.port == "open" else ("down", "it is stopping")
    reason = _death(facts)
    if reason:
        return "dead", reason
    if facts.port is None:
        return "unknown", "its port was not asked yet"
    if facts.port != "open":
        return ("busy", _busy(facts, "its port is silent")) if facts.was_open else ("starting", _start(facts))
    if facts.ready == 503:
        return (
            ("busy", _busy(facts, "it says that it is not ready")) if facts.was_ready else ("starting", _start(facts))
        )
    return _by_progress(facts)


def _death(facts: Facts) -> str:
    """Why the engine is dead, or nothing. A port may stay open for a minute after the engine behind it died."""
    lost_rank = facts.schedulers is not None and facts.expected is not None and facts.schedulers < facts.expected
    if lost_rank and (facts.had_all or facts.port == "open"):
        return f"{facts.schedulers} of {facts.expected} scheduler processes live"
    if facts.fatal and facts.port != "open" and not _is_recent(facts.moved_age, 3.0):
        return "its log holds a line after which it does not come back"
    if facts.port == "refused" and facts.was_open:
        return "its port is closed"
    if _is_recent(facts.compiled_age, COMPILING_S):
        return ""
    if facts.port == "silent" and facts.was_open and not _is_recent(facts.answer_age, FROZEN_S):
        return "its port is open and nothing answers"
    asked = facts.running or facts.waiting
    if asked and not _is_recent(facts.moved_age, HANG_S) and not _is_recent(facts.busy_age, HANG_S):
        return f"HTTP answers, but {asked} requests wait and nothing was computed for {HANG_S:.0f} s"
    return ""


def _by_progress(facts: Facts) -> tuple[str, str]:
    if facts.running is None and not facts.waiting:
        if _is_recent(facts.proof_age, BUSY_S):
            return "serving", ""
        return ("unknown", "nothing says what runs") if facts.ready is None else ("idle", "")
    if facts.running or facts.waiting:
        if _is_recent(facts.moved_age, BUSY_S):
            return "serving", _stall(facts)
        return "busy", _busy(facts, "requests run and no token was counted of late")
    return ("serving" if _is_recent(facts.proof_age, BUSY_S) else "idle"), ""


def _busy(facts: Facts, otherwise: str) -> str:
    if _is_recent(facts.compiled_age, COMPILING_S):
        return "it compiles kernels"
    if _is_recent(facts.moved_age, BUSY_S):
        return _stall(facts) or "it computes"
    return _stall(facts) or otherwise


def _stall(facts: Facts) -> str:
    return f"by its own word nothing was heard of its scheduler for {facts.stall:.0f} s" if facts.stall else ""


def _start(facts: Facts) -> str:
    if facts.phase is None:
        return ""
    if _is_recent(facts.compiled_age, COMPILING_S):
        return f"{facts.phase}: it compiles kernels"
    if facts.still_s is not None and facts.still_s > STILL_S:
        return f"{facts.phase}: no progress in the log for {facts.still_s:.0f} s"
    return facts.phase


def _is_recent(age: float | None, limit: float) -> bool:
    return age is not None and age <= limit
