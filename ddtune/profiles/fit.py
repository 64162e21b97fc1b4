"""Which profiles a host's dialect and build can express."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.model import Base, Dialect, Profile
from ddtune.profiles.resolve import resolve


@dataclass(frozen=True)
class Fit:
    """Whether a profile fits; ``why_not`` is one sentence, ``dialects`` are those that can express it."""

    profile: str
    why_not: str | None
    dialects: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether a switch to it can be tried."""
        return self.why_not is None


def fit(
    profile: Profile, dialect: Dialect, dialects: Mapping[str, Dialect], flags: Collection[str] | None = None
) -> Fit:
    """How ``profile`` fits a service of ``dialect`` whose build has ``flags`` (None or empty: not known)."""
    able = tuple(
        name
        for name, one in dialects.items()
        # One that was drafted for another service says nothing of this one.
        if (one.build is None or name == dialect.name) and _refusal(profile, one, None) is None
    )
    refusal = _refusal(profile, dialect, flags)
    if refusal is None:
        return Fit(profile.name, None, able)
    elsewhere = [name for name in able if name != dialect.name]
    foreign = _refusal(profile, dialect, None) is not None and elsewhere
    return Fit(profile.name, f"{refusal} (of dialect {', '.join(elsewhere)})" if foreign else refusal, able)


def home(profile: Profile, preferred: Dialect, dialects: Mapping[str, Dialect]) -> Dialect:
    """A dialect to judge ``profile`` by where there is no host: the preferred one if it can express it."""
    able = [dialects[name] for name in fit(profile, preferred, dialects).dialects]
    return preferred if preferred in able or not able else able[0]


def _refusal(profile: Profile, dialect: Dialect, flags: Collection[str] | None) -> str | None:
    try:
        resolve(Base((), "/"), profile, dialect, flags)
    except UnsupportedAxis as error:
        return str(error)
    return None
