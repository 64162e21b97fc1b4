"""Profiles, axes and releases as frozen dataclasses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

AxisValue = bool | int | float | str

NO_SPECULATION = "none"
"""The algorithm without speculation."""


def speculates(axes: Mapping[str, AxisValue]) -> bool:
    """Whether what runs with these axes drafts tokens."""
    return axes.get("algorithm", NO_SPECULATION) != NO_SPECULATION


@dataclass(frozen=True)
class GateSizes:
    """Sizes of the gate. ``concurrency`` are the levels of the full gate; ``skip`` names checks left out on purpose.

    ``coding`` and ``wide`` are how many problems and short questions; ``max_tokens`` is for a coding problem.
    ``singles`` and ``crowd`` are the full gate's continuations, one at a time and together; each has ``tokens`` (the
    crowd's twice as many, its first two ``long_tokens``). ``copy_words`` is the length of a copy,
    ``long_copy_words`` of the long one, ``long_prompt_words`` of a long prompt (0: none). ``mixed`` and ``sampled`` are
    the requests of those checks; ``sampling`` is production's, empty for the server's own defaults.
    """

    concurrency: tuple[int, ...] = (1, 2, 8, 32)
    soak_s: float = 300.0
    soak_requests: int = 200
    skip: tuple[str, ...] = ()
    coding: int = 30
    max_tokens: int = 400
    singles: int = 6
    crowd: int = 16
    tokens: int = 128
    copy_words: int = 90
    long_copy_words: int = 300
    wide: int = 20
    mixed: int = 16
    sampled: int = 8
    long_prompt_words: int = 2600
    long_tokens: int = 1000
    sampling: Mapping[str, float] = field(default_factory=dict)


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
class Setting:
    """What one value of an axis is to a build: ``{value}`` stands for the value itself.

    ``drop`` names flags that must be absent, as ``--flag`` or, with one value only, as ``--flag=value``.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class Axis:
    """A knob in one dialect.

    ``spellings`` are for any value, the newest build's first; ``values`` are for one value each, by ``value_key``;
    ``also`` are further signs, by value, by which a running argv is read back; ``default`` is the value when nothing is
    said.
    """

    name: str
    spellings: tuple[Setting, ...] = ()
    values: Mapping[str, Setting] = field(default_factory=dict)
    also: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    default: AxisValue | None = None


@dataclass(frozen=True)
class Dialect:
    """How one family of builds spells the axes.

    ``match_flags`` must all be known to a build of it, and ``match_algorithms`` (where there are any) have the one that
    it runs: they tell dialects of one and the same build apart. ``spec_flags`` and ``spec_env`` are all dropped when
    the algorithm is ``none``; ``lacks`` names, for an axis that it cannot express, the flag that the build would need;
    ``needs`` maps an algorithm to flags that must have one value or be absent. ``build`` is the engine build that a
    site dialect was drafted on.
    """

    name: str
    axes: Mapping[str, Axis] = field(default_factory=dict)
    match_flags: tuple[str, ...] = ()
    match_algorithms: tuple[str, ...] = ()
    spec_flags: tuple[str, ...] = ()
    spec_env: tuple[str, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    build: str | None = None
    description: str = ""

    @property
    def env_names(self) -> tuple[str, ...]:
        """Every variable of the environment that an axis sets, unsets or is read from."""
        settings = [setting for axis in self.axes.values() for setting in settings_of(axis)]
        names = [name for setting in settings for name in (*setting.env, *setting.unset)]
        return tuple(dict.fromkeys([*names, *self.spec_env]))


def settings_of(axis: Axis) -> tuple[Setting, ...]:
    """All settings of an axis, those that are only read back too."""
    return (*axis.spellings, *axis.values.values(), *(setting for found in axis.also.values() for setting in found))


def value_key(value: AxisValue) -> str:
    """A value as a key of ``Axis.values``: ``true``, ``ddtree``, ``8``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Remark:
    """What a lint found in a profile; ``blocks`` when the engine would not start, or not as the profile says."""

    text: str
    blocks: bool = False
    cause: str | None = None
    forceable: bool = False


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
