"""How what an engine says parts from what it would say alone: near-ties, and faults that live in its batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ddtune.sim.engine.garbage import bangs, foreign, garbage
from ddtune.sim.engine.ties import chance, ties

FEW, MANY = 4, 16
LONG_TOKENS = 2048
DOUBLED_SHARE = 0.08


@dataclass(frozen=True)
class Parting:
    """Strengths from 0 (never) to 1.

    ``near_ties`` is no fault: how often a near-tie breaks the other way with one request running. ``doubled`` words: 1
    doubles 8 % of them. All else is the share of the requests that the fault takes: ``low`` garbage while at most 4
    requests run, ``high`` while at least 16 do, ``late`` past 2048 tokens of context; ``poison`` once a request with so
    long a prompt has ended; ``drift`` into another language; ``empty`` answers.
    """

    near_ties: float = 0.0
    doubled: float = 0.0
    low: float = 0.0
    high: float = 0.0
    late: float = 0.0
    poison: float = 0.0
    drift: float = 0.0
    empty: float = 0.0

    def any(self) -> bool:
        """Whether answers can part at all."""
        return self != Parting()


@dataclass(frozen=True)
class Spoken:
    """One request as its answer is spoken.

    ``alone`` are the tokens that a healthy engine writes with nothing else running, ``other`` those after the near-tie
    at a position broke the other way (None where the margins are wide), ``context`` the tokens of the prompt.
    """

    parting: Parting
    seed: int
    number: int
    prompt: str
    context: int
    alone: tuple[str, ...]
    text_seed: int
    other: Callable[[int], tuple[str, ...]] | None
    poisoned: bool

    def tokens(self, crowd: Callable[[int], int], produced: int) -> tuple[str, ...]:
        """The first ``produced`` tokens; ``crowd`` tells how many requests ran when one was made."""
        made = list(self._tied(crowd, produced)[:produced])
        if self.parting.doubled:
            made = self._doubled(made)
        if self._hit("drift"):
            begin = int(len(self.alone) * self._rng("drift from").uniform(0.1, 0.6))
            made[begin:] = foreign(f"{self.seed} {self.number}", len(made[begin:]))
        if self._hit("low") or self._hit("high") or self._hit("late"):
            broken = garbage(self.prompt, self.seed, len(made)) or bangs(len(made))
            made = [broken[at] if self._breaks(at, crowd(at)) else token for at, token in enumerate(made)]
        if self.poisoned and self._hit("poison"):
            made = bangs(len(made))
        return tuple(made)

    def empty(self) -> bool:
        """Whether the answer ends before its first token."""
        poisoned = self.poisoned and self._hit("poison") and self._rng("poison kind").random() < 0.3
        return self._hit("empty") or poisoned

    def _tied(self, crowd: Callable[[int], int], produced: int) -> tuple[str, ...]:
        if self.other is None or not self.parting.near_ties:
            return self.alone
        rng = self._rng("near_ties")
        for at in ties(self.text_seed, produced):
            if rng.random() < chance(self.parting.near_ties, crowd(at)):
                return self.other(at)
        return self.alone

    def _doubled(self, made: list[str]) -> list[str]:
        rng, out = self._rng("doubled"), list[str]()
        for token in made:
            out.append(token)
            if token.strip().isalpha() and rng.random() < DOUBLED_SHARE * self.parting.doubled:
                out.append(token if token.startswith(" ") else f" {token}")
        return out[: len(made)]

    def _breaks(self, at: int, running: int) -> bool:
        return (
            (running <= FEW and self._hit("low"))
            or (running >= MANY and self._hit("high"))
            or (self.context + at >= LONG_TOKENS and self._hit("late"))
        )

    def _hit(self, fault: str) -> bool:
        strength: float = getattr(self.parting, fault)
        return strength > 0 and self._rng(fault).random() < strength

    def _rng(self, use: str) -> random.Random:
        return random.Random(f"{self.seed}/{use}/{self.number}")
