"""Profile and dialect files as pydantic models; the JSON schemas beside the shipped files come from here."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator

from ddtune.onhost.releases import NEVER_SET
from ddtune.profiles.model import Axis, Dialect, Expect, GateSizes, Profile, Setting

Value = StrictBool | StrictInt | StrictFloat | StrictStr
Flag = Annotated[str, Field(pattern=r"^--?[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Dropped = Annotated[str, Field(pattern=r"^--?[A-Za-z0-9][A-Za-z0-9_.-]*(=.*)?$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectFile(_Model):
    """What the profile is expected to do; ``tokens_per_s`` by concurrency."""

    accept_length: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    tokens_per_s: dict[Annotated[str, Field(pattern=r"^[1-9][0-9]*$")], Annotated[float, Field(gt=0)]] = {}


class GateFile(_Model):
    """Sizes of the gate."""

    concurrency: Annotated[tuple[Positive, ...], Field(min_length=1)] = GateSizes.concurrency
    soak_s: Seconds = GateSizes.soak_s
    soak_requests: Annotated[int, Field(ge=0)] = GateSizes.soak_requests
    skip: tuple[str, ...] = ()
    coding: Annotated[int, Field(ge=0)] = GateSizes.coding
    max_tokens: Positive = GateSizes.max_tokens
    singles: Positive = GateSizes.singles
    crowd: Positive = GateSizes.crowd
    tokens: Positive = GateSizes.tokens
    copy_words: Annotated[int, Field(ge=12)] = GateSizes.copy_words
    long_copy_words: Annotated[int, Field(ge=12)] = GateSizes.long_copy_words
    wide: Annotated[int, Field(ge=0)] = GateSizes.wide
    mixed: Annotated[int, Field(ge=0)] = GateSizes.mixed
    sampled: Annotated[int, Field(ge=0)] = GateSizes.sampled
    long_prompt_words: Annotated[int, Field(ge=0)] = GateSizes.long_prompt_words
    long_tokens: Positive = GateSizes.long_tokens
    sampling: dict[Literal["temperature", "top_p", "top_k", "min_p"], Annotated[float, Field(ge=0)]] = {}


class ProfileFile(_Model):
    """A profile: axes, extra arguments, environment to set and to unset, expectations and sizes of the gate."""

    description: str = ""
    axes: dict[Name, Value] = {}
    args: tuple[str, ...] = ()
    env: dict[Variable, str] = {}
    unset: tuple[Variable, ...] = ()
    expect: ExpectFile = ExpectFile()
    gate: GateFile = GateFile()

    @field_validator("args")
    @classmethod
    def _begins_with_a_flag(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        if args and not re.match(r"--?[A-Za-z]", args[0]):
            raise ValueError("must begin with a flag")
        return args

    @field_validator("env", "unset")
    @classmethod
    def _not_of_the_start(cls, names: Any) -> Any:
        taken = sorted(NEVER_SET & set(names))
        if taken:
            raise ValueError(f"{', '.join(taken)} is given anew to each start")
        return names

    def profile(self, name: str) -> Profile:
        """The profile that this file describes."""
        rates = {int(concurrency): rate for concurrency, rate in self.expect.tokens_per_s.items()}
        return Profile(
            name=name,
            axes=dict(self.axes),
            args=self.args,
            env=dict(self.env),
            unset=self.unset,
            expect=Expect(self.expect.accept_length, rates),
            gate=GateSizes(**self.gate.model_dump()),
            description=self.description,
        )


class SettingFile(_Model):
    """What a value of an axis is to the build; ``{value}`` stands for it.

    ``drop`` takes ``--flag``, or ``--flag=value`` for the flag with that value only.
    """

    args: tuple[str, ...] = ()
    env: dict[Variable, str] = {}
    drop: tuple[Dropped, ...] = ()
    unset: tuple[Variable, ...] = ()

    def setting(self) -> Setting:
        """As a dataclass."""
        return Setting(self.args, dict(self.env), self.drop, self.unset)


class AxisFile(BaseModel):
    """An axis: a setting for any value (or several ``spellings``, the newest build's first), or a table for each value.

    ``also`` are further signs by which a running argv is read back; ``default`` is the value when nothing is said.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, SettingFile] = Field(init=False)

    args: tuple[str, ...] = ()
    env: dict[Variable, str] = {}
    drop: tuple[Dropped, ...] = ()
    unset: tuple[Variable, ...] = ()
    spellings: tuple[SettingFile, ...] = ()
    also: dict[str, tuple[SettingFile, ...]] = {}
    default: Value | None = None

    def axis(self, name: str) -> Axis:
        """As a dataclass."""
        direct = Setting(self.args, dict(self.env), self.drop, self.unset)
        spellings = tuple(spelling.setting() for spelling in self.spellings)
        return Axis(
            name=name,
            spellings=(direct, *spellings) if direct != Setting() else spellings,
            values={value: setting.setting() for value, setting in (self.__pydantic_extra__ or {}).items()},
            also={value: tuple(sign.setting() for sign in signs) for value, signs in self.also.items()},
            default=self.default,
        )


class MatchFile(_Model):
    """By what a build is known: flags of its ``--help``, and the algorithm that it runs where those do not tell."""

    flags: tuple[Flag, ...] = ()
    algorithms: tuple[str, ...] = ()


class SpeculativeFile(_Model):
    """All that is dropped when the algorithm is ``none``."""

    flags: tuple[Flag, ...] = ()
    env: tuple[Variable, ...] = ()


class DialectFile(_Model):
    """A dialect. ``extends`` names another one, whose axes and speculative flags it has as well.

    ``needs`` maps an algorithm to flags that must have one value or be absent; ``build`` is the engine build that a
    site dialect was drafted on.
    """

    description: str = ""
    build: str | None = None
    extends: str | None = None
    match: MatchFile = MatchFile()
    speculative: SpeculativeFile = SpeculativeFile()
    lacks: dict[Name, Flag] = {}
    needs: dict[Name, dict[Flag, str]] = {}
    axes: dict[Name, AxisFile] = {}

    def dialect(self, name: str, parent: Dialect | None) -> Dialect:
        """The dialect on top of the one that it extends."""
        of = parent or Dialect("")
        own = {axis: file.axis(axis) for axis, file in self.axes.items()}
        return Dialect(
            name=name,
            axes={**of.axes, **own},
            match_flags=self.match.flags,
            match_algorithms=tuple(name.lower() for name in self.match.algorithms),
            spec_flags=tuple(dict.fromkeys([*of.spec_flags, *self.speculative.flags])),
            spec_env=tuple(dict.fromkeys([*of.spec_env, *self.speculative.env])),
            lacks={axis: flag for axis, flag in {**of.lacks, **self.lacks}.items() if axis not in own},
            needs={**of.needs, **self.needs},
            build=self.build,
            description=self.description,
        )


_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schemas() -> dict[str, dict[str, Any]]:
    """The JSON schemas by file name."""
    return {f"{kind}.schema.json": _schema(kind, model) for kind, model in _KINDS.items()}


_KINDS: dict[str, type[BaseModel]] = {"profile": ProfileFile, "dialect": DialectFile}


def _schema(kind: str, model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$schema": _DRAFT, **_closed(model.model_json_schema())}
    return {**schema, "title": f"ddtune {kind}"}


def _closed(node: Any) -> Any:
    """The schema with every table of patterned keys closed to other keys, which pydantic refuses but does not write."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    if "patternProperties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed
