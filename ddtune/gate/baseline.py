"""What stable answers just before the change: the measure that a candidate is held to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ddtune.gate import accept, coding, detectors, prompts, verbatim
from ddtune.gate.isolation import Isolation
from ddtune.gate.model import Answer
from ddtune.gate.probe import Probe, generate
from ddtune.gate.sending import EngineGone, Send, by_id, lost, tokens
from ddtune.profiles.model import GateSizes

CANARY_LEAST = 12
COUNTING = "1, 2, 3, 4, 5, 6, 7, 8, 9,"


@dataclass(frozen=True)
class Baseline:
    """Stable's answers, by request id, and what they say of stable.

    ``repeats`` holds second answers to prompts of ``answers``. ``copies`` are the fidelities (0 to 1) of stable's
    verbatim copies in ``copy_style``. ``coding`` names the problems that stable solves of the ``coding_asked``.
    ``quirks`` are ``(family, detector)`` pairs that fire on stable itself. ``canary`` is the request that the host's
    own guard repeats after a rollback, ``{"path", "body", "expect"}``, or None where stable gives no text that could be
    expected again. ``problems`` says in sentences what is wrong with stable. Seconds are real.
    """

    nonce: str
    speculative: bool
    answers: Mapping[str, Answer] = field(default_factory=dict)
    repeats: Mapping[str, Answer] = field(default_factory=dict)
    copy_style: str = "chat"
    copies: tuple[float, ...] = ()
    coding: tuple[str, ...] = ()
    coding_asked: int = 0
    quirks: frozenset[tuple[str, str]] = frozenset()
    accept_length: float | None = None
    canary: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()
    quick_seconds: float = 0.0
    seconds: float = 0.0
    tokens: int = 0


async def measure(
    send: Send,
    sizes: GateSizes,
    *,
    nonce: str,
    speculative: bool,
    isolation: Isolation | None,
    full: bool = True,
    limit_s: float = 900.0,
    clock: Callable[[], float] = time.monotonic,
) -> Baseline:
    """Ask stable everything that a candidate will be asked; ``full`` adds what only the full gate needs.

    ``speculative`` says whether stable speculates. Raises :class:`EngineGone` when stable drops connections.
    """
    begun = clock()

    async def ask(probes: Sequence[Probe], concurrency: int) -> list[Answer]:
        left = max(1.0, limit_s - (clock() - begun))
        answers = await send([probe.request for probe in probes], concurrency, left)
        gone = lost(answers)
        if gone is not None:
            raise EngineGone(gone.error)
        return answers

    style = "chat"
    copies = prompts.quick_copies(nonce, style, sizes)
    copied = await ask(copies, 1)
    if _copying(copies, copied) < 1:
        plain = prompts.quick_copies(nonce, "plain", sizes)
        again = await ask(plain, 1)
        if _copying(plain, again) > _copying(copies, copied):
            style, copies, copied = "plain", plain, again
    single = (*prompts.quick_continuations(nonce, sizes), *prompts.questions(nonce, sizes))
    first = await ask(single, 1)
    quick_seconds = clock() - begun
    probes: list[Probe] = [*copies, *single]
    answers = [*copied, *first]
    solved: tuple[str, ...] = ()
    asked = 0
    if full:
        alone, crowd = prompts.single_continuations(nonce, sizes), prompts.crowd_continuations(nonce, sizes)
        answers += [*await ask(alone, 1), *await ask(crowd, 8)]
        probes += [*alone, *crowd]
        if isolation is not None and sizes.coding > 0 and "coding" not in sizes.skip:
            problems = prompts.coding(nonce, sizes.coding, sizes.max_tokens)
            code = await ask(problems, len(problems))
            judged = await coding.judge_all(problems, code, isolation)
            solved, asked = tuple(name for name, reason in judged.items() if reason is None), len(problems)
            answers += code
            probes += problems
    repeated = [probe for probe in probes if probe.family == "continue" and not probe.id.startswith("crowd")]
    # Half of them are enough to know stable's own noise.
    again = await ask(repeated[: 4 if not full else 9], 1)
    everything = [*answers, *again]
    fidelities = tuple(verbatim.fidelity(probe.expect, by_id(copied)[probe.id]) for probe in copies)
    rate, _ = accept.measured(everything)
    return Baseline(
        nonce=nonce,
        speculative=speculative,
        answers=by_id(answers),
        repeats=by_id(again),
        copy_style=style,
        copies=fidelities,
        coding=solved,
        coding_asked=asked,
        quirks=detectors.quirks(probes, answers),
        accept_length=rate,
        canary=await _canary(ask, nonce, style),
        problems=_problems(everything, fidelities),
        quick_seconds=quick_seconds,
        seconds=clock() - begun,
        tokens=tokens(everything),
    )


def _copying(probes: Sequence[Probe], answers: Sequence[Answer]) -> float:
    answered = by_id(answers)
    return fmean(verbatim.fidelity(probe.expect, answered[probe.id]) for probe in probes)


async def _canary(ask: Callable[..., Any], nonce: str, style: str) -> Mapping[str, Any] | None:
    """A request whose text the guard can look for: a short copy, else a start that stable repeats word for word."""
    copy = prompts.copy("canary", f"{nonce}-canary", 12, style)
    (answer,) = await ask((copy,), 1)
    if copy.expect in answer.text:
        return {"path": copy.request.path, "body": dict(copy.request.body), "expect": copy.expect}
    count = Probe(generate("canary", COUNTING, 24), "continue", "list", COUNTING)
    first, second = [(await ask((count,), 1))[0].text for _ in range(2)]
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
