"""The profiles as they stand on one host: pure, from what was read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ddtune.live.measured import Known, Measured
from ddtune.profiles import standing
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.model import Profile
from ddtune.rollout.learned import Downtime, downtime
from ddtune.rollout.onbuild import Build
from ddtune.rollout.state import HostState

NOTHING = Measured()


@dataclass(frozen=True)
class Entry:
    """A profile and how it stands. ``standing`` is None where the host says nothing of profiles.

    ``measured`` is what it was last seen to do on this host, ``downtime`` what its start takes.
    """

    profile: Profile
    standing: str | None = None
    cause: str | None = None
    stable: bool = False
    measured: Measured = NOTHING
    downtime: Downtime | None = None


def entries(
    profiles: Mapping[str, Profile],
    state: HostState | None,
    build: Build | None,
    now: float,
    measured: Known | None = None,
) -> tuple[Entry, ...]:
    """All profiles in the order of their names; ``now`` is seconds since the epoch."""
    known = measured or {}
    if state is None or build is None:
        return tuple(Entry(one, measured=known.get(one.name, NOTHING)) for one in profiles.values())
    found = [_entry(profile, state, build, now) for profile in profiles.values()]
    return tuple(
        replace(
            one,
            measured=known.get(one.profile.name, NOTHING),
            downtime=downtime(state.history, one.profile.name, state.envelope, build.build),
        )
        for one in found
    )


def _entry(profile: Profile, state: HostState, build: Build, now: float) -> Entry:
    try:
        release = build.resolve(profile)
    except UnsupportedAxis as error:
        return Entry(profile, "unsupported", str(error))
    bad = build.known_bad(profile, release)
    # What runs was adopted under the profile's name, and may be spelled in another way than the profile spells it.
    stable = profile.name == state.stable.profile
    sha = state.stable.release if stable else release.sha256
    found = standing.of(sha, state.raw, bad is not None, now)
    return Entry(profile, found, bad.cause if bad else None, stable)
