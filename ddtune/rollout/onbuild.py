"""Profiles on one engine build: what they resolve to and what speaks against them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddtune.config.names import nearest
from ddtune.profiles import dialects, envelope
from ddtune.profiles.axes import axes_of
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.fit import fit, home
from ddtune.profiles.lint import lint
from ddtune.profiles.model import AxisValue, Base, Dialect, Profile, Release, Remark
from ddtune.profiles.resolve import resolve
from ddtune.rollout import preflight, site_dialect
from ddtune.rollout.errors import UnknownProfile
from ddtune.rollout.model import Finding
from ddtune.rollout.state import HostState, read_state


@dataclass(frozen=True)
class Build:
    """A base, the dialect of its engine build and what is known of both. ``flags`` is empty when not known.

    ``changed`` are remarks on an engine that is another one than the dialect was last looked at on.
    """

    base: Base
    dialect: Dialect
    flags: tuple[str, ...] = ()
    build: str = ""
    arch: str = ""
    envelope: tuple[Mapping[str, Any], ...] = ()
    changed: tuple[Remark, ...] = ()

    @classmethod
    def of(cls, state_answer: Mapping[str, Any] | HostState, build: Mapping[str, Any]) -> Build:
        """From the helper's ``state`` and ``probe_build`` answers."""
        state = state_answer if isinstance(state_answer, HostState) else read_state(state_answer)
        base = state.base or Base((), "/")
        flags = tuple(build.get("flags") or ())
        dialect = dialects.of_site(state.site, flags, base.argv)
        name = str(build.get("build") or "")
        changed = tuple(site_dialect.remarks(state.site, dialect, name, flags))
        return cls(base, dialect, flags, name, str(state.site.get("arch") or ""), state.envelope, changed)

    def resolve(self, profile: Profile) -> Release:
        """The release of a profile. Raises UnsupportedAxis."""
        try:
            return resolve(self.base, profile, self._dialect_for(profile), self.flags or None)
        except UnsupportedAxis as error:
            raise UnsupportedAxis(error.axis, error.flag, f"{error}{self._way(profile, error)}") from None

    def why_not(self, profile: Profile) -> str | None:
        """Why this build cannot express a profile, or None."""
        return fit(profile, self.dialect, dialects.load_dialects(), self.flags or None).why_not

    def _way(self, profile: Profile, error: UnsupportedAxis) -> str:
        """How a service's own dialect that speaks no algorithm can be taught one that its build has."""
        speaks = "algorithm" in self.dialect.axes
        if self.dialect.build is None or speaks or error.axis != "algorithm":
            return ""
        known = [one for one in dialects.load_dialects().values() if one.build is None]
        able = [one.name for one in known if fit(profile, one, {}, self.flags or None).fits]
        if not able:
            return ""
        path, names = site_dialect.path_of(self.dialect.name), " or ".join(f'"{one}"' for one in able)
        return f"; to try it, let {path} say extends = {names}"

    def _dialect_for(self, profile: Profile) -> Dialect:
        """The host's dialect; without a host one that can express the profile."""
        return self.dialect if self.base.argv else home(profile, self.dialect, dialects.load_dialects())

    def axes(self, release: Release) -> dict[str, AxisValue]:
        """The axes of a release as this dialect reads them back."""
        return axes_of(release.argv, {**dict.fromkeys(self.dialect.env_names), **release.env_set}, self.dialect)

    def known_bad(self, profile: Profile, release: Release) -> preflight.KnownBad | None:
        """What the envelope, shipped and the host's own, says against a profile."""
        entries = [*envelope.shipped_envelope(), *map(envelope.from_host, self.envelope)]
        axes = {**self.axes(release), **profile.axes}
        entry = envelope.match(entries, self.arch, self.build, axes, self.dialect.name)
        if entry is None or not entry.bad:
            return None
        return preflight.KnownBad(entry.cause or "unknown", entry.text)

    def lint(self, profile: Profile) -> list[Finding]:
        """What is wrong or odd with a profile on this build, and with the build itself."""
        base = self.base if self.base.argv else None
        found = lint(profile, self._dialect_for(profile), self.flags or None, base)
        return [Finding(one.text, one.blocks, one.cause, one.forceable) for one in (*self.changed, *found)]

    def findings(self, profile: Profile) -> list[dict[str, Any]]:
        """The same as JSON, for the command line."""
        return [{"text": one.text, "blocks": one.blocks, "cause": one.cause} for one in self.lint(profile)]


def recorded() -> Build:
    """The deployment that the shipped profiles were measured on, for use without a host: an empty base."""
    return Build(Base((), "/"), dialects.choose("ddtree-pr29907", ()))


def find_profile(name: str, known: Mapping[str, Profile]) -> Profile:
    """The profile of that name. Raises UnknownProfile with the nearest names."""
    if name in known:
        return known[name]
    near = nearest(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else "`ddtune profiles list` shows what there is."
    raise UnknownProfile(f"There is no profile {name!r}; {hint}")
