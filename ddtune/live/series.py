"""The last hour as time series: readings in buckets of one width for each window, and what happened meanwhile."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ddtune.gpu.reading import node_power_w
from ddtune.live.snapshot import Snapshot

WINDOWS_S = (60, 300, 900, 3600)
"""Lengths of the windows that can be shown, in seconds."""
BUCKETS = 300
"""The most buckets that a window has: about what the widest chart has columns of dots."""
BRIDGED_TICKS = 3
"""Ticks without a reading that still belong to the last one; a longer silence is a gap."""
_FINEST_S = 0.5
_MARKS_KEPT = 200
_SERVICE = ("tokens_per_s", "accept_length", "running", "queued")


@dataclass(frozen=True)
class Mark:
    """Something that happened at ``at``, seconds since the epoch: a ``restart``, a ``switch`` or an ``incident``."""

    at: float
    kind: str
    text: str = ""


@dataclass(frozen=True)
class Window:
    """The readings of one window, oldest first.

    Bucket ``i`` of ``count`` covers ``start + i * step_s`` to ``start + (i + 1) * step_s``, seconds since the epoch on
    the operator's clock; ``start`` is a multiple of ``step_s``. ``mean``, ``low`` and ``high`` map a channel to one
    value for each bucket, None where nothing was read. Channels: ``gpu0`` … in watts, ``node`` in watts,
    ``tokens_per_s``, ``accept_length``, ``running``, ``queued``.
    """

    start: float
    step_s: float
    length_s: int
    count: int
    mean: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    low: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    high: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()

    @property
    def end(self) -> float:
        """When the newest bucket ends."""
        return self.start + self.step_s * self.count


class _Stat:
    __slots__ = ("count", "high", "low", "total")

    def __init__(self, value: float) -> None:
        self.total = self.low = self.high = value
        self.count = 1

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1
        self.low, self.high = min(self.low, value), max(self.high, value)


class _Tier:
    """Buckets of one width, by their number since the epoch; only those of the window are kept."""

    def __init__(self, length_s: int) -> None:
        self.length_s = length_s
        self.step_s = max(_FINEST_S, length_s / BUCKETS)
        self.count = round(length_s / self.step_s)
        self.buckets: OrderedDict[int, dict[str, _Stat]] = OrderedDict()
        self.last: tuple[object, Window] | None = None

    def add(self, at: float, values: Mapping[str, float]) -> None:
        number = math.floor(at / self.step_s)
        bucket = self.buckets.get(number)
        if bucket is None:
            bucket = self.buckets[number] = {}
            while len(self.buckets) > self.count:
                self.buckets.popitem(last=False)
        for channel, value in values.items():
            stat = bucket.get(channel)
            if stat is None:
                bucket[channel] = _Stat(value)
            else:
                stat.add(value)

    def window(self, now: float, bridged_s: float, marks: tuple[Mark, ...]) -> Window:
        first = math.floor(now / self.step_s) - self.count + 1
        mean: dict[str, list[float | None]] = {}
        low: dict[str, list[float | None]] = {}
        high: dict[str, list[float | None]] = {}
        for number, bucket in self.buckets.items():
            place = number - first
            if 0 <= place < self.count:
                for channel, stat in bucket.items():
                    if channel not in mean:
                        for known in (mean, low, high):
                            known[channel] = [None] * self.count
                    mean[channel][place] = stat.total / stat.count
                    low[channel][place], high[channel][place] = stat.low, stat.high
        reach = math.ceil(bridged_s / self.step_s)
        for known in (mean, low, high):
            for values in known.values():
                _bridge(values, reach)
        start = first * self.step_s
        found = tuple(one for one in marks if one.at >= start)
        return Window(start, self.step_s, self.length_s, self.count, _fixed(mean), _fixed(low), _fixed(high), found)


def _fixed(known: dict[str, list[float | None]]) -> dict[str, tuple[float | None, ...]]:
    return {name: tuple(values) for name, values in sorted(known.items())}


def _bridge(values: list[float | None], reach: int) -> None:
    """A reading goes on until the next one, where that is no more than ``reach`` buckets away."""
    if reach < 2 or None not in values:
        return
    last = -1
    for place, value in enumerate(values):
        if value is not None:
            if 0 <= last < place - 1 and place - last <= reach:
                values[last + 1 : place] = [values[last]] * (place - last - 1)
            last = place


class Series:
    """Takes snapshots of one host in one thread and gives windows in any. Memory does not grow after an hour."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._tiers = {length: _Tier(length) for length in WINDOWS_S}
        self._gpus_at = self._engine_at = -math.inf
        self._tick_s = 1.0
        self._invocation: str | None = None
        self._marks: dict[tuple[str, int], Mark] = {}
        self._channels: set[str] = set()
        self.version = 0
        """Another one when a channel or a mark is new, which a chart shows at once."""

    def take(self, one: Snapshot) -> None:
        """Add what is new in a snapshot: each reading once, at the time when it was read."""
        with self._lock:
            self._tick_s = one.tick_s
            half = one.tick_s / 2
            if one.ages.gpus is not None and one.at - one.ages.gpus > self._gpus_at + half:
                self._gpus_at = one.at - one.ages.gpus
                self._add(self._gpus_at, _power(one))
            if one.ages.engine is not None and one.at - one.ages.engine > self._engine_at + half:
                self._engine_at = one.at - one.ages.engine
                self._add(self._engine_at, _service(one))
            for mark in self._new_marks(one):
                self._marks.setdefault((mark.kind, round(mark.at)), mark)
            known = len(self._marks) + len(self._channels)
            self.version = max(self.version, known)
            while len(self._marks) > _MARKS_KEPT:
                self._marks.pop(next(iter(self._marks)))

    def window(self, length_s: int, now: float) -> Window:
        """The window of ``length_s`` (one of WINDOWS_S) that ends at ``now``, seconds since the epoch."""
        with self._lock:
            tier = self._tiers[length_s]
            # The charts of one screen all ask for the same.
            key = (math.floor(now / tier.step_s), self._gpus_at, self._engine_at, len(self._marks))
            if tier.last is None or tier.last[0] != key:
                marks = tuple(sorted(self._marks.values(), key=lambda mark: mark.at))
                tier.last = key, tier.window(now, BRIDGED_TICKS * self._tick_s, marks)
            return tier.last[1]

    def clear(self) -> None:
        """Forget everything, as after a seek in a recording."""
        with self._lock:
            self._forget()

    def _add(self, at: float, values: Mapping[str, float]) -> None:
        if values:
            self._channels.update(values)
            for tier in self._tiers.values():
                tier.add(at, values)

    def _new_marks(self, one: Snapshot) -> Iterable[Mark]:
        for line in one.history:
            kind = _KINDS.get(str(line.get("event")))
            at = line.get("at")
            if kind and isinstance(at, int | float):
                yield Mark(float(at), kind, str((line.get("to") or {}).get("profile") or ""))
        for incident in one.incidents:
            yield Mark(incident.at, "incident", incident.cause)
        invocation = one.service.invocation
        if invocation and invocation != self._invocation:
            if self._invocation is not None:
                yield Mark(one.at, "restart")
            self._invocation = invocation


# A switch is marked where it begins to touch the service and where it comes to an end that changes what runs.
_KINDS = {
    "swapped": "switch",
    "committed": "switch",
    "rolled_back": "switch",
    "late_crash": "incident",
    "rollback_failed": "incident",
    "host_action_required": "incident",
}


def _power(one: Snapshot) -> dict[str, float]:
    found = {f"gpu{gpu.index}": gpu.power_w for gpu in one.gpus if gpu.power_w is not None and not gpu.lost}
    node = node_power_w(one.gpus)
    return found if node is None else {**found, "node": node}


def _service(one: Snapshot) -> dict[str, float]:
    service = one.service
    values = ((name, getattr(service, name)) for name in _SERVICE)
    return {name: float(value) for name, value in values if value is not None}
