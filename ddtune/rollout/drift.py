"""Does a watched release go on as it did when the watch began: pure decisions over its readings and canaries.

Three things are watched. The accept length of users' requests over windows of readings, and of ddtune's own prompts
from one canary to the next: a change is told (``drift``) and nothing is taken back, because an accept length is no
proof in either direction and halves between two mixes of traffic. How often canaries are answered wrongly, where never
two in a row are: that is a fault like two in a row. And an accept length pinned at 1.00 where it was not: a fault too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ddtune.gate import accept
from ddtune.gate.sequential import Signs, Stream, Windows
from ddtune.live.snapshot import Snapshot
from ddtune.rollout.sights import Sight

WORTH = 0.05
"""The share of the usual by which it must have changed to be told: what is smaller is sure, and nobody's concern."""
STALE_TICKS = 3
WRONG = frozenset({"garbage_output", "wrong_output"})


@dataclass(frozen=True)
class Watched:
    """What a watch has seen of ``release``. ``traffic`` and ``own`` are accept lengths, ``newest`` the last windows of
    ``traffic``; ``accepted`` is whether drafts were ever accepted; ``read_at`` is the newest reading's epoch seconds.
    """

    release: str | None = None
    windows: Windows = field(default_factory=Windows)
    traffic: Stream = field(default_factory=Stream)
    own: Stream = field(default_factory=Stream)
    canaries: Signs = field(default_factory=Signs)
    newest: tuple[tuple[float, int], ...] = ()
    accepted: bool = False
    read_at: float = 0.0


def read(seen: Watched, snapshot: Snapshot) -> tuple[Watched, Sight | None]:
    """With one reading more, and what is to be told of it: ``accept_collapse`` or ``drift``."""
    service = snapshot.service
    if snapshot.at <= seen.read_at or service.release is None or not _counts(snapshot):
        return seen, None
    seen = _of(seen, service.release)
    length = service.accept_length
    assert length is not None, "a reading without it does not count"
    windows, mean = seen.windows.add(snapshot.at, length)
    seen = replace(seen, windows=windows, read_at=snapshot.at)
    if mean is None:
        return seen, None
    newest = (*seen.newest, (mean, 1))[-accept.PINNED_WINDOWS :]
    collapsed = seen.accepted and accept.pinned(newest)
    seen = replace(
        seen, newest=newest, accepted=seen.accepted or mean > accept.COLLAPSED, traffic=seen.traffic.add(mean)
    )
    if collapsed:
        said = f"the accept length is {mean:.2f} over {len(newest)} windows: no draft is accepted any more."
        return seen, Sight(snapshot.at, "accept_collapse", said)
    if mean <= accept.COLLAPSED:
        # A fault, if it goes on, and not a drift.
        return seen, None
    told = _drift(
        seen.traffic, snapshot.at, "users' requests", "windows", "Their mix may have changed as well as the engine."
    )
    return (replace(seen, traffic=Stream()) if told else seen), told


def looked(seen: Watched, release: str | None, sights: Sequence[Sight]) -> tuple[Watched, Sight | None]:
    """With the newest of ``sights``, a canary of ``release``, and what is to be told of it: ``drift``, or a fault."""
    if release is None:
        return seen, None
    seen, sight = _of(seen, release), sights[-1]
    if sight.cause is None or sight.cause in WRONG:
        canaries = seen.canaries.add(sign=sight.cause is not None)
        seen = replace(seen, canaries=canaries)
        # A good canary is not what is told, and a fault has to be one that goes on.
        often = canaries.too_often
        if often and sight.cause is not None:
            said = f"{often.signs} of the last {often.looks} canaries were answered wrongly, the last one"
            return seen, replace(sight, text=f"{said}: {sight.text}")
    if sight.accept_length is None:
        return seen, None
    own = seen.own.add(sight.accept_length)
    told = _drift(
        own, sight.at, "ddtune's own prompts", "canaries", "They are the same as before, so it is not the traffic."
    )
    return replace(seen, own=Stream() if told else own), told


def acted(seen: Watched) -> Watched:
    """After a fault that was told: it is told again only if it comes again."""
    return replace(seen, canaries=Signs(), newest=(), accepted=False)


def _of(seen: Watched, release: str | None) -> Watched:
    """Another release has another usual; a restart of the same one has not."""
    return seen if seen.release == release else Watched(release=release, read_at=seen.read_at)


def _counts(snapshot: Snapshot) -> bool:
    """Whether the accept length is one of now, of requests that run, and of no trial."""
    service, age = snapshot.service, snapshot.ages.engine
    open_ = snapshot.txn is not None and not snapshot.txn.get("settled")
    fresh = age is not None and age <= STALE_TICKS * snapshot.tick_s
    return bool(
        snapshot.link.state == "up" and fresh and not open_ and service.running and service.accept_length is not None
    )


def _drift(stream: Stream, at: float, of: str, unit: str, why: str) -> Sight | None:
    test = stream.drifted
    if test is None or abs(test.since.mean - test.usual.mean) < WORTH * test.usual.mean:
        return None
    said = (
        f"the accept length of {of} was {test.usual.mean:.2f} and is {test.since.mean:.2f} over "
        f"{test.since.count * stream.merged} {unit} (one such alarm in 10,000 is chance). {why}"
    )
    return Sight(at, "drift", said)
