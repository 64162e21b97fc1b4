"""Which checks a gate will run, with their token budgets, and which not and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ddtune.gate import prompts
from ddtune.gate.baseline import Baseline
from ddtune.profiles.model import GateSizes

FULL_TOKENS = 50_000
CROWD = 8
BURST_TOKENS = 120
CODING_QUORUM = 0.6
ALWAYS = frozenset({"verbatim_copy", "agreement"})


@dataclass(frozen=True)
class Planned:
    """One planned check of a stage (``quick``, ``full`` or ``soak``); ``tokens`` is the most that it may generate."""

    stage: str
    name: str
    tokens: int
    level: int = 1


@dataclass(frozen=True)
class GatePlan:
    """All planned checks in order, and those not planned with the reason why."""

    checks: tuple[Planned, ...]
    not_planned: Mapping[str, str]
    sizes: GateSizes
    speculative: bool
    expect_accept: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the planned checks, each once, in the order in which they first run."""
        return tuple(dict.fromkeys(check.name for check in self.checks))

    def has(self, stage: str, name: str) -> bool:
        """Whether ``name`` is planned in ``stage``."""
        return any(check.stage == stage and check.name == name for check in self.checks)

    def on_stable(self, stable: Baseline) -> GatePlan:
        """This plan for stable itself after a rollback: judged without what the candidate is expected to do."""
        reported = stable.speculative and stable.accept_length is not None
        kept = tuple(check for check in self.checks if check.name != "accept_length" or reported)
        return replace(self, checks=kept, speculative=stable.speculative, expect_accept=None)

    def levels(self) -> tuple[int, ...]:
        """The concurrency levels of the full gate's bursts, rising."""
        return tuple(sorted(check.level for check in self.checks if check.name.startswith("concurrency_")))


def plan(
    sizes: GateSizes,
    *,
    speculative: bool,
    isolation: str | None,
    isolation_reason: str = "",
    expect_accept: float | None = None,
    baseline: Baseline | None = None,
    stages: tuple[str, ...] = ("quick", "full", "soak"),
) -> GatePlan:
    """The plan for a profile with ``sizes``.

    ``speculative`` says whether the candidate speculates. ``isolation`` is the kind of sandbox that this machine has
    for generated code, None with ``isolation_reason`` where it has none. Without a ``baseline`` (a dry run) what only
    stable can tell is taken as planned.
    """
    out: dict[str, str] = {}
    for name in sizes.skip:
        if name not in ALWAYS:
            out[name] = "left out by the profile"
    if not speculative:
        out.setdefault("accept_length", "the profile does not speculate")
    elif baseline is not None and baseline.speculative and baseline.accept_length is None:
        out.setdefault("accept_length", "this build does not report verify calls on stable either")
    coding = _no_coding(sizes, isolation, isolation_reason, baseline)
    if coding is not None:
        out.setdefault("coding", coding)
    checks = [*_quick(sizes), *_full(sizes, out), Planned("soak", "soak", 0)]
    kept = tuple(
        check
        for check in checks
        if check.stage in stages and check.name not in out and check.name.partition("_")[0] not in out
    )
    return GatePlan(kept, out, sizes, speculative, expect_accept)


def _no_coding(sizes: GateSizes, isolation: str | None, reason: str, baseline: Baseline | None) -> str | None:
    if sizes.coding < 1:
        return "the profile asks for no coding problems"
    if isolation is None:
        return f"no isolation for generated code on this machine: {reason or 'none found'}"
    if baseline is not None and baseline.coding_asked:
        solved, asked = len(baseline.coding), baseline.coding_asked
        if solved < CODING_QUORUM * asked:
            return f"stable itself solves {solved} of {asked} coding problems"
    return None


def _quick(sizes: GateSizes) -> list[Planned]:
    copies = prompts.QUICK_COPIES * _copy_tokens(sizes.copy_words)
    continued = prompts.QUICK_TOPICS * sizes.tokens
    return [
        Planned("quick", "process_facts", 0),
        Planned("quick", "verbatim_copy", copies),
        Planned("quick", "agreement", continued),
        Planned("quick", "detectors", 2 * min(prompts.QUESTION_TOKENS, sizes.tokens)),
        Planned("quick", "accept_length", 0),
    ]


def _copy_tokens(words: int) -> int:
    """The most tokens of a copy of so many words: prompts.copy gives one for each three letters, and some room."""
    return 2 * words + 100


def _full(sizes: GateSizes, out: dict[str, str]) -> list[Planned]:
    agreed = sizes.singles * sizes.tokens + sizes.crowd * 2 * sizes.tokens
    long = _copy_tokens(sizes.long_copy_words)
    # A lost coding problem is asked once more.
    code = 2 * sizes.coding * sizes.max_tokens
    left = FULL_TOKENS - agreed - code - long
    bursts: list[Planned] = []
    # The highest level first: it is what production runs at.
    for level in sorted({level for level in sizes.concurrency if level > 1}, reverse=True):
        name, tokens = f"concurrency_{level}", max(level, 4) * BURST_TOKENS
        if tokens > left:
            out.setdefault(name, f"{tokens} tokens are more than what is left of the gate's {FULL_TOKENS}")
            continue
        left -= tokens
        bursts.append(Planned("full", name, tokens, level))
    return [
        Planned("full", "agreement", agreed, CROWD),
        *reversed(bursts),
        Planned("full", "verbatim_copy", long),
        Planned("full", "coding", code, sizes.coding),
        Planned("full", "detectors", 0),
        Planned("full", "accept_length", 0),
        Planned("full", "process_facts", 0),
    ]
