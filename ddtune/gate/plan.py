"""Which checks a gate will run, with their token budgets, and which not and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ddtune.gate import prompts, wide_margins
from ddtune.gate.baseline import Baseline
from ddtune.profiles.model import GateSizes

FULL_TOKENS = 50_000
CROWD = 8
MOST_LOST = 5
LEAST_COPIES = 4
SOAK_BATCH = 8
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

    def budget(self, stage: str, name: str) -> int | None:
        """The most tokens that a check of a stage may generate, None where it is not planned."""
        return next((check.tokens for check in self.checks if (check.stage, check.name) == (stage, name)), None)


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
    for name, why in _absent(sizes, baseline).items():
        out.setdefault(name, why)
    checks = [*_quick(sizes), *_full(sizes, out), Planned("soak", "soak", _soak_tokens(sizes))]
    kept = tuple(
        check
        for check in checks
        if check.stage in stages and check.name not in out and check.name.partition("_")[0] not in out
    )
    return GatePlan(kept, out, sizes, speculative, expect_accept)


def _absent(sizes: GateSizes, stable: Baseline | None) -> dict[str, str]:
    asked = {"wide_margins": sizes.wide, "repeated_prompt": sizes.mixed, "sampling": sizes.sampled}
    out = {name: "the profile asks for none" for name, count in asked.items() if count < 1}
    if sizes.long_prompt_words < 1:
        out["long_prompt"] = "the profile asks for none"
    if stable is None:
        return out
    if stable.no_long is not None:
        out.setdefault("long_prompt", stable.no_long)
    if stable.sure_asked and len(stable.sure) < wide_margins.QUORUM * stable.sure_asked:
        said = f"stable itself answers {len(stable.sure)} of {stable.sure_asked} short questions"
        out.setdefault("wide_margins", said)
    return out


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
    return 2 * words + 50


def _full(sizes: GateSizes, out: dict[str, str]) -> list[Planned]:
    long_answer = max(0, sizes.long_tokens - 2 * sizes.tokens)
    agreed = sizes.singles * sizes.tokens + sizes.crowd * 2 * sizes.tokens
    agreed += min(prompts.LONG_ANSWERS, sizes.crowd) * long_answer
    short = min(prompts.QUESTION_TOKENS, sizes.tokens)
    copied = _copy_tokens(min(prompts.BURST_WORDS, sizes.copy_words))
    # The few coding problems that are lost are asked once more.
    code = (sizes.coding + min(MOST_LOST, sizes.coding)) * sizes.max_tokens
    beside = (prompts.LONGS + prompts.BESIDE + prompts.AFTERWARDS) * copied
    checks = [
        Planned("full", "wide_margins", 2 * sizes.wide * prompts.SURE_TOKENS, CROWD),
        Planned("full", "agreement", agreed, CROWD),
        Planned("full", "repeated_prompt", prompts.REPEATED * copied + sizes.mixed * short, CROWD),
        Planned("full", "verbatim_copy", _copy_tokens(sizes.long_copy_words)),
        Planned("full", "long_prompt", beside, CROWD),
        Planned("full", "coding", code, sizes.coding),
        Planned("full", "sampling", sizes.sampled * short, CROWD),
        Planned("full", "detectors", 0),
        Planned("full", "accept_length", 0),
        Planned("full", "process_facts", 0),
    ]
    left = FULL_TOKENS - sum(check.tokens for check in checks if check.name not in out)
    bursts: list[Planned] = []
    # The highest level first: it is what production runs at.
    for level in sorted(set(sizes.concurrency), reverse=True):
        count = max(level, LEAST_COPIES)
        words = min(prompts.burst_words(count), sizes.copy_words)
        name, tokens = f"concurrency_{level}", count * _copy_tokens(words)
        if tokens > left:
            out.setdefault(name, f"{tokens} tokens are more than what is left of the gate's {FULL_TOKENS}")
            continue
        left -= tokens
        bursts.append(Planned("full", name, tokens, level))
    return [*checks[:2], *reversed(bursts), *checks[2:]]


def _soak_tokens(sizes: GateSizes) -> int:
    rounds = math.ceil(sizes.soak_requests / SOAK_BATCH)
    return rounds * ((SOAK_BATCH - 1) * _copy_tokens(sizes.copy_words) + sizes.tokens)


def production(sizes: GateSizes, max_running: object) -> GateSizes:
    """The sizes with the number of requests that production may run at once as a further level."""
    if not isinstance(max_running, int) or isinstance(max_running, bool) or max_running < 1:
        return sizes
    levels = {level for level in sizes.concurrency if level <= max_running} | {max_running}
    return replace(sizes, concurrency=tuple(sorted(levels)))
