"""Profiles, axes and releases as frozen dataclasses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

AxisValue = bool | int | float | str


@dataclass(frozen=True)
class GateSizes:
    """Sizes of the gate. ``concurrency`` are the levels of the full gate; ``skip`` names checks left out on purpose."""

    concurrency: tuple[int, ...] = (1, 8)
    soak_s: float = 300.0
    soak_requests: int = 200
    skip: tuple[str, ...] = ()
    coding: int = 5
    max_tokens: int = 400


@dataclass(frozen=True)
class Expect:
    """What a profile is expected to do; ``tokens_per_s`` by concurrency."""

    accept_length: float | None = None
    tokens_per_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """A named set of axes, extra arguments and environment, with what is expected of it and how it is judged."""

    name: str
    axes: Mapping[str, AxisValue]
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    expect: Expect = Expect()
    gate: GateSizes = GateSizes()
    description: str = ""


@dataclass(frozen=True)
class Base:
    """What the service ran at adoption: argv and working folder of its main process, kept whole."""

    argv: tuple[str, ...]
    cwd: str


@dataclass(frozen=True)
class Release:
    """What is started: immutable, named by the sha256 of its canonical JSON."""

    argv: tuple[str, ...]
    env_set: Mapping[str, str]
    env_unset: tuple[str, ...]
    cwd: str
    schema: int = 1

    def canonical(self) -> bytes:
        """The canonical JSON: keys sorted, no spaces, UTF-8."""
        body = {
            "argv": list(self.argv),
            "cwd": self.cwd,
            "env_set": dict(self.env_set),
            "env_unset": sorted(self.env_unset),
            "schema": self.schema,
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def sha256(self) -> str:
        """The name of this release."""
        return hashlib.sha256(self.canonical()).hexdigest()
