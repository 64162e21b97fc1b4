"""The picture at any moment of a recording: the same lines through the same steps as when they came. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ddtune.live.picture import snapshot
from ddtune.live.recording import Entry, Recording
from ddtune.live.reduce import reduce
from ddtune.live.snapshot import Link, Snapshot
from ddtune.live.state import State

KEPT_EVERY_S = 10.0


@dataclass(frozen=True)
class _Point:
    """The state before the entry ``place``, and the host's boot clock with the time at which that was read."""

    place: int
    state: State
    boottime: tuple[float, float] | None = None


class Player:
    """Moves through a recording; going back goes on from the nearest state that it kept.

    ``seen`` is told of the picture at each reading of the GPUs that it passes, so once a tick.
    """

    def __init__(self, recording: Recording, seen: Callable[[Snapshot], None] = lambda _one: None) -> None:
        self.recording = recording
        self._seen = seen
        self._now = _Point(0, State(recording.host, recording.simulated, recording.clock_scale, recording.tick_s))
        self._kept = [self._now]

    def at(self, position_s: float) -> tuple[Snapshot, float | None]:
        """The picture ``position_s`` after the recording's begin, and the host's boot clock then."""
        entries, now = self.recording.entries, self.recording.began + position_s
        if self._now.place and entries[self._now.place - 1].at > now:
            self._now = max((one for one in self._kept if self._before(one, now)), key=lambda one: one.place)
        while self._now.place < len(entries) and entries[self._now.place].at <= now:
            entry = entries[self._now.place]
            self._now = _after(self._now, entry)
            if entry.line.get("t") == "gpus":
                self._seen(snapshot(self._now.state, entry.at))
            if entries[self._now.place - 1].at >= self._reached + KEPT_EVERY_S:
                self._kept.append(self._now)
        boottime = self._now.boottime
        return snapshot(self._now.state, now), None if boottime is None else boottime[0] + now - boottime[1]

    @property
    def _reached(self) -> float:
        place = self._kept[-1].place
        return self.recording.entries[place - 1].at if place else self.recording.began

    def _before(self, point: _Point, now: float) -> bool:
        return point.place == 0 or self.recording.entries[point.place - 1].at <= now


def _after(point: _Point, entry: Entry) -> _Point:
    line, state = entry.line, point.state
    if line.get("t") == "link":
        return replace(point, place=point.place + 1, state=replace(state, link=_link(line)))
    boottime = line.get("boottime")
    known = (float(boottime), entry.at) if isinstance(boottime, int | float) else point.boottime
    return _Point(point.place + 1, reduce(state, line, entry.at), known)


def _link(line: Mapping[str, Any]) -> Link:
    return Link(str(line.get("state")), line.get("rtt_ms"), line.get("error"), line.get("since"))


def events(recording: Recording) -> tuple[float, ...]:
    """Where something happened, in seconds from the begin: the link or the transaction came into another state."""
    found: list[float] = []
    link = txn = None
    for entry in recording.entries:
        if entry.line.get("t") == "link":
            state = entry.line.get("state")
            link, moved = state, state != link
        elif entry.line.get("t") == "ddtune":
            told = entry.line.get("txn") or {}
            now = (told.get("op"), told.get("state"), told.get("settled"))
            txn, moved = now, now != txn
        else:
            continue
        if moved:
            found.append(entry.at - recording.began)
    return tuple(found)
