"""What stable answers just before the change: the measure that a candidate is held to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ddtune.gate import accept, coding, detectors, prompts, verbatim, wide_margins
from ddtune.gate.isolation import Isolation
from ddtune.gate.model import Answer
from ddtune.gate.probe import Probe, generate
from ddtune.gate.reference import Reference
from ddtune.gate.sending import EngineGone, Send, by_id, lost, tokens
from ddtune.profiles.model import GateSizes

CANARY_LEAST = 12
COUNTING = "1, 2, 3, 4, 5, 6, 7, 8, 9,"
QUICK_REPEATS, REPEATS = 4, 9
MOST_TOGETHER = 32


@dataclass(frozen=True)
class Baseline:
    """Stable's answers and what they say of it.

    ``reference`` is what continuations are held to: answers of stable itself, or those that the host keeps. ``copies``
    are the fidelities (0 to 1) of stable's verbatim copies in ``copy_style``, ``copies_together`` of those that were
    asked at once (empty: none were, the quick gate asks for none). ``coding`` and ``sure`` name the
    problems and the short questions that stable answers rightly of the ``coding_asked`` and ``sure_asked``. ``quirks``
    are ``(family, detector)`` pairs that fire on stable itself. ``long_exact`` says whether stable copies behind long
    prompts without a fault, ``no_long`` says why stable takes no long prompt (None: it does), ``weights`` which
    weights answer, by their own word. ``canary`` is the request that the host's own guard repeats after a rollback,
    ``{"path", "body", "expect"}``, or None where stable gives no text that could be expected again. ``problems`` says
    in sentences what is wrong with stable. Seconds are real, ``seconds`` as if nothing had been kept.
    """

    nonce: str
    speculative: bool
    reference: Reference = field(default_factory=lambda: Reference(""))
    copy_style: str = "chat"
    copies: tuple[float, ...] = ()
    copies_together: tuple[float, ...] = ()
    coding: tuple[str, ...] = ()
    coding_asked: int = 0
    sure: tuple[str, ...] = ()
    sure_asked: int = 0
    quirks: frozenset[tuple[str, str]] = frozenset()
    accept_length: float | None = None
    no_long: str | None = None
    long_exact: bool = False
    weights: str | None = None
    canary: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()
    quick_seconds: float = 0.0
    seconds: float = 0.0
    tokens: int = 0

    @property
    def errs(self) -> bool:
        """Whether a sound model of this kind has inexact copies: it copied only what it was shown twice."""
        return self.copy_style == "plain"


async def measure(
    send: Send,
    sizes: GateSizes,
    *,
    nonce: str,
    speculative: bool,
    isolation: Isolation | None,
    full: bool = True,
    reference: Reference | None = None,
    limit_s: float = 900.0,
    clock: Callable[[], float] = time.monotonic,
) -> Baseline:
    """Ask stable everything that a candidate will be asked; ``full`` adds what only the full gate needs.

    ``speculative`` says whether stable speculates. A kept ``reference`` spares its prompts. Raises :class:`EngineGone`
    when stable drops connections.
    """
    begun = clock()
    probes: list[Probe] = []
    answers: list[Answer] = []

    async def ask(asked: Sequence[Probe], concurrency: int, *, keep: bool = True) -> list[Answer]:
        left = max(1.0, limit_s - (clock() - begun))
        came = await send([probe.request for probe in asked], concurrency, left) if asked else []
        gone = lost(came)
        if gone is not None:
            raise EngineGone(gone.error)
        if keep:
            probes.extend(asked)
            answers.extend(came)
        return came

    style, copies, copied = await _style(ask, nonce, sizes)
    kept = reference or Reference(nonce)
    topics = prompts.quick_continuations(kept.nonce, sizes)
    # Also where answers are kept: they tell what this build reports, and what it accepts.
    await ask(topics, 1)
    await ask(prompts.questions(nonce, sizes), 1)
    quick_seconds = clock() - begun
    solved: tuple[str, ...] = ()
    sure: tuple[str, ...] = ()
    sure_asked = coding_asked = 0
    together: tuple[float, ...] = ()
    no_long, long_exact = None, False
    if full:
        singles = prompts.single_continuations(kept.nonce, sizes)
        await ask(_new(singles, kept), 1)
        await ask(_new(prompts.crowd_continuations(kept.nonce, sizes), kept), 8)
        topics = (*topics, *singles)
        together = await _together(ask, nonce, style, sizes)
        short = prompts.wide_margins(nonce, sizes.wide)
        sure, sure_asked = wide_margins.right(short, await ask(short, 8)), len(short)
        no_long, long_exact = await _long(ask, nonce, style, sizes)
        if isolation is not None and sizes.coding > 0 and "coding" not in sizes.skip:
            problems = prompts.coding(nonce, sizes.coding, sizes.max_tokens)
            judged = await coding.judge_all(problems, await ask(problems, len(problems)), isolation)
            solved, coding_asked = tuple(name for name, why in judged.items() if why is None), len(problems)
    asked_once = by_id(answers)
    # Half of them are enough to know stable's own noise.
    again = await ask(_new(topics, kept)[: REPEATS if full else QUICK_REPEATS], 1, keep=False)
    everything = [*answers, *again]
    came = by_id(copied)
    fidelities = tuple(verbatim.fidelity(probe.expect, came[probe.id]) for probe in copies)
    rate, _ = accept.measured(everything)
    return Baseline(
        nonce=nonce,
        speculative=speculative,
        reference=Reference(
            kept.nonce,
            {**_of(probes, "continue", asked_once), **kept.answers},
            {**{answer.id: (answer,) for answer in again}, **kept.again},
            kept.said,
        ),
        copy_style=style,
        copies=fidelities,
        copies_together=together,
        coding=solved,
        coding_asked=coding_asked,
        sure=sure,
        sure_asked=sure_asked,
        quirks=detectors.quirks(probes, answers) | _kept_quirks(kept, sizes, full=full),
        accept_length=rate,
        no_long=no_long,
        long_exact=long_exact,
        weights=next((answer.weight_version for answer in everything if answer.weight_version), None),
        canary=await _canary(ask, nonce, style),
        problems=_problems(everything, fidelities),
        quick_seconds=quick_seconds,
        seconds=(clock() - begun) * (1 + _spared(kept, sizes, full=full) / max(1, tokens(everything))),
        tokens=tokens(everything),
    )


async def _style(ask: Callable[..., Any], nonce: str, sizes: GateSizes) -> tuple[str, tuple[Probe, ...], list[Answer]]:
    """The way of asking for a copy that this model follows best, and the copies."""
    copies = prompts.quick_copies(nonce, "chat", sizes)
    copied = await ask(copies, 1)
    if _copying(copies, copied) == 1:
        # A model that errs now and then makes two exact copies, too.
        more = prompts.style_copies(nonce, sizes)
        copies, copied = (*copies, *more), [*copied, *await ask(more, 1)]
    if _copying(copies, copied) < 1:
        plain = prompts.quick_copies(nonce, "plain", sizes)
        again = await ask(plain, 1)
        if _copying(plain, again) > _copying(copies, copied):
            return "plain", plain, again
    return "chat", copies, copied


def _copying(probes: Sequence[Probe], answers: Sequence[Answer]) -> float:
    answered = by_id(answers)
    return fmean(verbatim.fidelity(probe.expect, answered[probe.id]) for probe in probes)


async def _together(ask: Callable[..., Any], nonce: str, style: str, sizes: GateSizes) -> tuple[float, ...]:
    """The fidelities of copies at the highest level that one round of them can tell of."""
    level = min(MOST_TOGETHER, max(sizes.concurrency, default=1))
    if level < 2:
        return ()
    probes = prompts.burst(f"{nonce}-together", level, level, style, sizes)
    answers = await ask(probes, level)
    pairs = zip(probes, answers, strict=True)
    return tuple(verbatim.fidelity(probe.expect, answer) for probe, answer in pairs if answer.error is None)


async def _long(ask: Callable[..., Any], nonce: str, style: str, sizes: GateSizes) -> tuple[str | None, bool]:
    """Why stable takes no prompt of that length (None: it copies from the end of each), and whether without a fault."""
    if sizes.long_prompt_words < 1:
        return None, False
    probes = prompts.long_prompts(nonce, style, sizes, prompts.LONGS)
    answers = await ask(probes, 1, keep=False)
    refused = next((answer.error for answer in answers if answer.error_kind == "http"), None)
    if refused is not None:
        return f"stable refuses a prompt of {sizes.long_prompt_words} words: {refused}", False
    copied = [
        0.0 if answer.error is not None else verbatim.fidelity(probe.expect, answer)
        for probe, answer in zip(probes, answers, strict=True)
    ]
    if min(copied) < verbatim.LEAST:
        return f"stable itself does not copy the end of a prompt of {sizes.long_prompt_words} words", False
    return None, min(copied) == 1


def _spared(kept: Reference, sizes: GateSizes, *, full: bool) -> int:
    """Tokens that stable was not asked for, because their answers are kept; a candidate is."""
    quick = {probe.id for probe in prompts.quick_continuations(kept.nonce, sizes)}
    asked = [probe.id for probe in prompts.continuations(kept.nonce, sizes, full=full) if probe.id not in quick]
    return sum(kept.answers[name].completion_tokens for name in asked if name in kept.answers)


def _new(probes: Sequence[Probe], kept: Reference) -> tuple[Probe, ...]:
    return tuple(probe for probe in probes if probe.id not in kept.answers)


def _of(probes: Sequence[Probe], family: str, answers: Mapping[str, Answer]) -> dict[str, Answer]:
    return {probe.id: answers[probe.id] for probe in probes if probe.family == family}


def _kept_quirks(kept: Reference, sizes: GateSizes, *, full: bool) -> frozenset[tuple[str, str]]:
    probes = [probe for probe in prompts.continuations(kept.nonce, sizes, full=full) if probe.id in kept.answers]
    return detectors.quirks(probes, [kept.answers[probe.id] for probe in probes])


async def _canary(ask: Callable[..., Any], nonce: str, style: str) -> Mapping[str, Any] | None:
    """A request whose text the guard can look for: a short copy, else a start that stable repeats word for word."""
    copy = prompts.copy("canary", f"{nonce}-canary", 12, style)
    (answer,) = await ask((copy,), 1, keep=False)
    if copy.expect in answer.text:
        return {"path": copy.request.path, "body": dict(copy.request.body), "expect": copy.expect}
    count = Probe(generate("canary", COUNTING, 24), "continue", "list", COUNTING)
    first, second = [(await ask((count,), 1, keep=False))[0].text for _ in range(2)]
    shared = first[: next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first))]
    # Whole and short: what follows after some tokens may differ between healthy starts.
    shared = shared[:CANARY_LEAST]
    if len(shared.strip()) < CANARY_LEAST // 2:
        return None
    return {"path": count.request.path, "body": dict(count.request.body), "expect": shared}


def _problems(answers: Sequence[Answer], fidelities: tuple[float, ...]) -> tuple[str, ...]:
    found = []
    errors = [answer for answer in answers if answer.error is not None]
    if errors:
        found.append(f"stable did not answer {len(errors)} of {len(answers)} requests: {errors[0].error}")
    if not fidelities or fmean(fidelities) < verbatim.LEAST:
        found.append("stable does not copy a short text")
    return tuple(found)
