"""The shipped envelope's file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ddtune.profiles.envelope import Entry
from ddtune.profiles.model import AxisValue
from ddtune.profiles.schema import Name, Value


class CausesFile(BaseModel):
    """The cause seen at each value of one axis, ``axis``."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, str] = Field(init=False)

    axis: Name


class RegionFile(BaseModel):
    """A region that is known to be bad, or to be good.

    ``dialect`` is left out where the region holds for each that can express it; ``causes`` are those of a bad one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    arch: Annotated[str, Field(pattern=r"^sm_[0-9]+[a-z]?$")]
    dialect: str | None = None
    outcome: Literal["bad", "good"] = "bad"
    build: str
    entered: str
    confidence: str
    evidence: str
    when: Annotated[dict[Name, Value], Field(min_length=1)]
    causes: CausesFile | None = None

    def entry(self) -> Entry:
        """As an entry."""
        causes: dict[AxisValue, str] = {
            int(value): cause
            for value, cause in ((self.causes.__pydantic_extra__ or {}) if self.causes else {}).items()
        }
        return Entry(
            arch=self.arch,
            build=self.build,
            when=dict(self.when),
            bad=self.outcome == "bad",
            good=self.outcome == "good",
            evidence=self.evidence,
            at=self.entered,
            confidence=self.confidence,
            dialect=self.dialect,
            causes=causes,
            cause_axis=self.causes.axis if self.causes else None,
        )


class EnvelopeFile(BaseModel):
    """All regions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    region: tuple[RegionFile, ...]

    def entries(self) -> list[Entry]:
        """As entries."""
        return [region.entry() for region in self.region]
