"""The graph canary's verdict by budget, from the facts that the host sent. Pure.

Limits are from one H200 with SGLang 0.5.17's Triton kernel in bfloat16: errors of 0.0020 to 0.0023 to float32, 0.016 to
0.17 with a stale mask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

ERROR_LIMIT = 0.006
EXACT_LIMIT = 1e-4
"""The limit in float32, for a kernel that runs in an interpreter."""

LEAST_FREE_MIB = 2048
NOT_COVERED = (
    "the server's own graph buffers and padding",
    "tensor parallelism, NVLS and symmetric memory",
    "the overlap schedule and the draft model",
    "every attention backend but the one named here",
)
_DEVICE = re.compile(r"CUDA error|illegal|CUBLAS|AcceleratorError|misaligned|device-side|launch failure", re.IGNORECASE)
_NO_MEMORY = re.compile(r"out of memory", re.IGNORECASE)


class Sound(StrEnum):
    """What is said of a budget."""

    SOUND = "sound"
    WRONG = "wrong_result"
    CRASH = "crash"
    NOT_COVERED = "not_covered"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class BudgetVerdict:
    """One budget: ``eager_error`` and ``replay_error`` are the largest seen, ``stale_error`` the smallest of a control
    that had to be seen; None where there is none or it is not finite.
    """

    budget: int
    verdict: Sound
    reason: str
    eager_error: float | None = None
    replay_error: float | None = None
    stale_error: float | None = None
    cases: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CanaryReport:
    """``refused`` says why nothing was tried; ``not_covered`` what even a sound verdict does not speak of."""

    budgets: tuple[BudgetVerdict, ...]
    backend: str | None = None
    kernel: str | None = None
    gpu: Mapping[str, Any] | None = None
    shapes: tuple[Mapping[str, Any], ...] = ()
    shape_source: str | None = None
    xids: tuple[Mapping[str, Any], ...] = ()
    not_covered: tuple[str, ...] = NOT_COVERED
    refused: str | None = None
    seconds: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def worst(self) -> Sound:
        """The verdict that decides how the command ends."""
        found = {one.verdict for one in self.budgets}
        order = (Sound.CRASH, Sound.WRONG, Sound.INCONCLUSIVE, Sound.NOT_COVERED)
        return next((one for one in order if one in found), Sound.SOUND if found else Sound.INCONCLUSIVE)


def judge(answer: Mapping[str, Any], budgets: Sequence[int]) -> CanaryReport:
    """The report for one answer of the helper's ``canary``."""
    runs: Sequence[Mapping[str, Any]] = answer.get("runs") or ()
    said = [line for run in runs for line in run["lines"]]
    place, gpu, shapes = (_last(said, kind) for kind in ("place", "gpu", "shapes"))
    info = answer.get("info") or {}
    backend = answer.get("backend")
    kernel = (place or {}).get("kernel")
    common = CanaryReport(
        (),
        backend,
        kernel,
        None if gpu is None else {name: value for name, value in gpu.items() if name != "t"},
        tuple((shapes or {}).get("shapes") or ()),
        (shapes or {}).get("source"),
        tuple(answer.get("xids") or ()),
        seconds=float(answer.get("seconds") or 0.0),
        info=info,
    )
    wanted = sorted(set(budgets))
    if not runs:
        what = (
            "its deterministic mode" if info.get("enable_deterministic_inference") else f"attention backend {backend}"
        )
        return _all(common, wanted, Sound.NOT_COVERED, f"the canary does not know the kernel of {what}")
    if gpu is not None and place is None and gpu["free_mib"] < LEAST_FREE_MIB:
        return replace(
            common, refused=f"{gpu['free_mib']} MiB of {gpu['name']} are free, and {LEAST_FREE_MIB} are needed"
        )
    if place is not None and kernel is None:
        return _all(common, wanted, Sound.NOT_COVERED, "the engine has no extend attention where ddtune looks for it")
    limit = EXACT_LIMIT if (place or {}).get("device") == "cpu" else ERROR_LIMIT
    verdicts = tuple(_budget(budget, runs, common.xids, limit) for budget in wanted)
    return replace(common, budgets=verdicts, not_covered=(*NOT_COVERED, *_more_not_covered(answer, common)))


def _more_not_covered(answer: Mapping[str, Any], report: CanaryReport) -> Iterable[str]:
    if report.shape_source == "standard":
        yield "the model's own head shapes: its config could not be read, standard ones were used"
    if not answer.get("kernel_log", True):
        yield "Xids: the kernel's log cannot be read"
    page = report.info.get("page_size")
    if isinstance(page, int) and page > 1:
        yield f"pages of {page} tokens: slots were addressed one by one"
    cache = report.info.get("kv_cache_dtype")
    if cache not in (None, "auto", "bfloat16", "bf16"):
        yield f"a KV cache of {cache}: bfloat16 was used"


def _budget(
    budget: int, runs: Sequence[Mapping[str, Any]], xids: Sequence[Mapping[str, Any]], limit: float
) -> BudgetVerdict:
    cases = [line for run in runs for line in run["lines"] if line.get("t") == "case" and line["budget"] == budget]
    verdict, reason = _verdict(budget, cases, runs, xids, limit)
    whole = [case for case in cases if not case.get("failure")]
    return BudgetVerdict(
        budget,
        verdict,
        reason,
        _largest(case["eager"] for case in whole),
        _largest(error for case in whole for error in case["replays"]),
        min((case["stale"] for case in whole if case["stale"] is not None), default=None),
        len(cases),
        round(sum(case["seconds"] for case in cases), 2),
    )


def _verdict(
    budget: int,
    cases: Sequence[Mapping[str, Any]],
    runs: Sequence[Mapping[str, Any]],
    xids: Sequence[Mapping[str, Any]],
    limit: float,
) -> tuple[Sound, str]:
    dead = next((run for run in runs if _died_at(run) == budget), None)
    own = [xid for xid in xids if xid["whose"] == "canary" and dead is not None and xid["pid"] == dead["pid"]]
    failed = next((str(case["failure"]) for case in cases if case.get("failure")), None)
    if failed is not None and _NO_MEMORY.search(failed):
        return Sound.INCONCLUSIVE, f"the GPU's free memory went while it ran: {failed}"
    if failed is not None and not own and not _DEVICE.search(failed):
        return Sound.NOT_COVERED, f"the kernel cannot be called as the canary calls it: {failed}"
    if failed is not None:
        return Sound.CRASH, failed
    if dead is not None and dead["status"] is None:
        return Sound.CRASH, "it did not come back within the canary's time"
    if dead is not None:
        text = own[0]["text"] if own else (str(dead.get("tail") or "").strip().splitlines() or ["it said nothing"])[-1]
        return Sound.CRASH, f"the canary's process ended with status {dead['status']}: {text[:300]}"
    if not cases:
        return Sound.INCONCLUSIVE, _not_tried(runs)
    if any(xid["whose"] in ("unclear", "canary") for xid in xids):
        return Sound.INCONCLUSIVE, "an Xid came while it ran and cannot be told to be of another process"
    if not all(_controls_seen(case, limit) for case in cases):
        return Sound.INCONCLUSIVE, "a planted fault was not seen, so that a real one would not be either"
    return _compared(cases, limit)


def _compared(cases: Sequence[Mapping[str, Any]], limit: float) -> tuple[Sound, str]:
    for case in cases:
        at = f"{case['shape']}, batch {case['batch']}"
        if _over(case["eager"], limit):
            return Sound.WRONG, f"eager is off by {_said(case['eager'])} ({at})"
        worst = next((error for error in case["replays"] if _over(error, limit)), 0.0)
        if _over(worst, limit):
            return Sound.WRONG, f"a graph's replay is off by {_said(worst)} where eager is right ({at})"
        if case["equal"] is False:
            return Sound.WRONG, f"a graph's replay is not what eager gives on the same buffers ({at})"
    if not all(case["replays"] for case in cases):
        return Sound.NOT_COVERED, "eager is right; without a GPU no graph was replayed"
    return Sound.SOUND, f"{len(cases)} cases: eager is right and each replay equal to it"


def _died_at(run: Mapping[str, Any]) -> int | None:
    """The budget at which a process ended by itself."""
    begun = [line for line in run["lines"] if line.get("t") in ("begin", "case", "end")]
    return begun[-1]["budget"] if begun and begun[-1]["t"] == "begin" else None


def _not_tried(runs: Sequence[Mapping[str, Any]]) -> str:
    last = runs[-1]
    words = str(last.get("tail") or "").strip().splitlines()
    if last["status"] is None:
        return "the canary's time was over before it came to this budget"
    return f"the canary did not come to it (status {last['status']}{': ' + words[-1][:300] if words else ''})"


def _controls_seen(case: Mapping[str, Any], limit: float) -> bool:
    return bool(case["nan"]) and _over(case["stale"], limit)


def _over(error: float | None, limit: float) -> bool:
    """A missing error is one that is not finite."""
    return error is None or error > limit


def _said(error: float | None) -> str:
    return "more than can be said" if error is None else f"{error:.4f}"


def _largest(errors: Iterable[float | None]) -> float | None:
    found = list(errors)
    return None if not found or None in found else max(error for error in found if error is not None)


def _last(lines: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    return next((line for line in reversed(lines) if line.get("t") == kind), None)


def _all(report: CanaryReport, budgets: Sequence[int], verdict: Sound, reason: str) -> CanaryReport:
    return replace(report, budgets=tuple(BudgetVerdict(budget, verdict, reason) for budget in budgets))
