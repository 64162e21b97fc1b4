"""Reference answers that a host keeps: made once, from stable or by a visit to ``ar``, with their own noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ddtune.gate import detectors, prompts
from ddtune.gate.model import Answer, Request
from ddtune.gate.probe import Probe
from ddtune.gate.reference import Reference, agreed, parting, usable
from ddtune.gate.sending import EngineGone, Send, by_id, lost, tokens
from ddtune.onhost.api import flag_value
from ddtune.profiles.model import GateSizes

FLUSH = Request("flush", "/flush_cache", {}, 20.0)
TOGETHER = 8
_KEPT = ("text", "token_ids", "completion_tokens", "finish_reason", "gaps", "runners_up")


@dataclass(frozen=True)
class Golden:
    """Greedy answers to the gate's continuations.

    ``key`` names model, tokenizer, engine build and sampling: of another engine they are no measure. ``source`` is
    ``stable`` or ``ar``. ``noise`` has, by prompt, for a second run alone and one in a batch of 8, how many tokens
    agreed and the token that came instead (None when nothing did). ``cold`` says whether the engine emptied its
    prefix cache before each run. ``made_at`` is epoch seconds.
    """

    key: Mapping[str, str]
    nonce: str
    source: str
    profile: str | None
    release: str | None
    made_at: float
    made_by: str
    answers: Mapping[str, Answer] = field(default_factory=dict)
    noise: Mapping[str, tuple[tuple[int, int | None], ...]] = field(default_factory=dict)
    cold: bool = False
    margins_refused: str | None = None
    tokens: int = 0
    seconds: float = 0.0

    def reference(self) -> Reference:
        """What a candidate's continuations are held to."""
        again = {
            name: tuple(_again(self.answers[name], count, token) for count, token in runs)
            for name, runs in self.noise.items()
        }
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.made_at))
        of = "without speculation" if self.source == "ar" else "of stable"
        return Reference(self.nonce, self.answers, again, f"the reference {of} of {day} UTC by {self.made_by}")

    def to_dict(self) -> dict[str, Any]:
        """As the host keeps it (docs/json.md)."""
        body = {name: getattr(self, name) for name in self.__dataclass_fields__}
        answers = {
            name: {entry: value for entry in _KEPT if (value := getattr(answer, entry))}
            for name, answer in self.answers.items()
        }
        return {**body, "key": dict(self.key), "answers": answers, "noise": dict(self.noise)}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Golden:
        """What the host kept. Raises KeyError or TypeError where it is not one."""
        known = {name: body[name] for name in cls.__dataclass_fields__ if name in body}
        known["answers"] = {
            name: Answer.from_dict({"id": name, "status": 200, **one}) for name, one in body["answers"].items()
        }
        known["noise"] = {
            name: tuple((int(count), token) for count, token in runs) for name, runs in body["noise"].items()
        }
        return cls(**known)

    def own(self) -> str:
        """The reference's own noise in one sentence."""
        middle, suspects, runs = self.reference().own()
        if middle is None:
            return "it was run once only"
        alike = sum(token is None for many in self.noise.values() for _, token in many)
        said = f"{alike} of {runs} further runs said the same, the median agrees for {middle:.0f} tokens"
        return f"{said}; {suspects} parted where it was sure" if any(a.gaps for a in self.answers.values()) else said


def engine_key(argv: Sequence[str], build: str) -> dict[str, str]:
    """What a reference belongs to: model, tokenizer, engine build and sampling."""
    model = flag_value(argv, "--model-path") or flag_value(argv, "--model") or ""
    return {
        "model": model,
        "tokenizer": flag_value(argv, "--tokenizer-path") or model,
        "build": build,
        "sampling": "greedy",
    }


async def measure(
    send: Send,
    sizes: GateSizes,
    *,
    key: Mapping[str, str],
    nonce: str,
    source: str,
    profile: str | None,
    release: str | None,
    made_by: str,
    flush: bool,
    limit_s: float = 1800.0,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
    tell: Callable[[str], None] = lambda _text: None,
) -> Golden:
    """Ask one at a time, the same again, and once more together: what differs is the reference's own noise.

    ``flush`` asks for an empty prefix cache before each run, so that each is cold; not on an engine that serves users.
    Raises EngineGone when connections are lost, ValueError with a sentence when what came is no reference.
    """
    begun, spent, cold = clock(), 0, flush
    probes = prompts.continuations(nonce, sizes)

    async def ask(asked: Sequence[Probe], concurrency: int) -> dict[str, Answer]:
        nonlocal spent, cold
        left = max(1.0, limit_s - (clock() - begun))
        if flush:
            (said,) = await send([FLUSH], 1, left)
            # Refused while requests run, and without the admin key where there is one.
            cold = cold and said.status == 200
        came = await send([probe.request for probe in asked], concurrency, left)
        gone = lost(came)
        if gone is not None:
            raise EngineGone(gone.error)
        spent += tokens(came)
        return by_id(came)

    tell("asking with the gaps between the likeliest tokens")
    first = [_with_margins(probe) for probe in probes]
    trial = await ask(first[:1], 1)
    refused = trial[first[0].id].error
    tell(f"{len(probes)} prompts, one at a time" + (f" (no gaps: {refused})" if refused else ""))
    alone = await ask(probes if refused else first, 1)
    tell("the same again")
    second = await ask(probes, 1)
    tell(f"the same, {TOGETHER} at a time")
    third = await ask(probes, TOGETHER)
    _check(probes, alone)
    noise = {
        name: tuple(_noise(answer, run[name]) for run in (second, third) if usable(run.get(name)))
        for name, answer in alone.items()
    }
    return Golden(
        key=key,
        nonce=nonce,
        source=source,
        profile=profile,
        release=release,
        made_at=wall(),
        made_by=made_by,
        answers=alone,
        noise=noise,
        cold=cold,
        margins_refused=refused,
        tokens=spent,
        seconds=round(clock() - begun, 3),
    )


def _check(probes: Sequence[Probe], answers: Mapping[str, Answer]) -> None:
    bad = [answer for answer in answers.values() if not usable(answer)]
    if bad:
        raise ValueError(f"{len(bad)} of {len(probes)} prompts were not answered: {bad[0].error}")
    # An engine that cannot be a reference says the same nonsense to everything.
    found = detectors.judge([(probe, answers[probe.id]) for probe in probes], ())
    if found.cause == "garbage_output" and len({answer.text for answer in answers.values()}) < len(probes) / 2:
        raise ValueError(f"what was answered is no reference: {found.reason}")


def _with_margins(probe: Probe) -> Probe:
    body = {**probe.request.body, "return_logprob": True, "top_logprobs_num": 2}
    return replace(probe, request=replace(probe.request, body=body))


def _noise(first: Answer, other: Answer) -> tuple[int, int | None]:
    at = parting(first, other)
    if at is None:
        return agreed(first, other), None
    return at, other.token_ids[at] if at < len(other.token_ids) else -1


def _again(first: Answer, count: int, token: int | None) -> Answer:
    if token is None:
        return first
    return replace(first, token_ids=(*first.token_ids[:count], token), gaps=(), runners_up=(), finish_reason="stop")
