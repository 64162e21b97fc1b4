"""A field case as reported, and a sibling of it with another rank, prefix and numbers; and a host that is watched."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddtune.live.picture import snapshot
from ddtune.live.reduce import reduce
from ddtune.live.snapshot import Link, Snapshot
from ddtune.live.state import State

PREFIXES = (
    "(SGLangEngine pid={pid}, ip=192.0.2.{byte}) ",
    "sglang_service-{digit}  | ",
    "2026-06-18T11:02:07.{pid}Z stdout F ",
    "[pod/engine-{digit}/main] ",
    "Jun 18 11:02:07 gpu-{digit} python3[{pid}]: ",
)
STARTED = "Started engine.service - SGLang."
READY = "[2026-01-01 00:00:00] The server is fired up and ready to roll!"


@dataclass
class Given:
    """``sibling`` is the second input of a case; what ``rank``, ``number`` and ``prefix`` give then differs."""

    sibling: bool
    rng: random.Random
    _ranks: dict[int, int] = field(default_factory=dict)
    _prefix: str | None = None

    def rank(self, reported: int, of: int = 8) -> int:
        """Another rank for each reported one, the same one each time."""
        if not self.sibling:
            return reported
        if reported not in self._ranks:
            free = [rank for rank in range(of) if rank not in (reported, *self._ranks.values())]
            self._ranks[reported] = self.rng.choice(free)
        return self._ranks[reported]

    def number(self, reported: int, low: int | None = None, high: int | None = None) -> int:
        if not self.sibling:
            return reported
        low, high = reported // 2 + 1 if low is None else low, reported * 2 + 9 if high is None else high
        return self.rng.choice([one for one in {self.rng.randint(low, high) for _ in range(9)} if one != reported])

    def lines(self, *texts: str) -> list[str]:
        """The lines as the journal has them: in a container's dress where it is the sibling."""
        if self._prefix is None:
            made = self.rng.choice(PREFIXES).format(
                pid=self.rng.randint(100, 99999), byte=self.rng.randint(1, 254), digit=self.rng.randint(1, 9)
            )
            self._prefix = made if self.sibling else ""
        return [self._prefix + text for text in texts]

    def pci(self, reported: str) -> str:
        if not self.sibling:
            return reported
        return f"{self.rng.choice(('0000', '0018', '00000002'))}:{self.rng.randint(0x10, 0xEF):02x}:00"


class Watch:
    """A watched host: lines of the collector in, what is shown out."""

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at
        self.state = State("box", tick_s=1.0, link=Link("up"))

    def take(self, line: Mapping[str, Any]) -> Watch:
        self.state = reduce(self.state, {"at": self.at, **line}, self.at)
        return self

    def later(self, seconds: float) -> Watch:
        self.at += seconds
        return self

    def log(self, texts: Iterable[str], source: str = "unit", pid: int = 77, step_s: float = 0.1) -> Watch:
        for text in texts:
            entry = {"at": self.at, "cursor": f"c{self.at}", "text": text, "priority": 6, "pid": pid}
            self.take({"t": "log", "source": source, "entries": [entry]})
            self.at += step_s
        return self

    def kernel(self, *texts: str) -> Watch:
        return self.log(texts, "kernel", pid=0)

    def systemd(self, *texts: str) -> Watch:
        return self.log(texts, "unit", pid=1)

    def unit(self, schedulers: int | None = 8, of: int = 8, active: str = "active", **props: str) -> Watch:
        shown = {"ActiveState": active, "SubState": "running", "MainPID": "7", "InvocationID": "a", **props}
        return self.take(
            {
                "t": "unit",
                "name": "engine.service",
                "props": shown,
                "argv": [],
                "schedulers": schedulers,
                "schedulers_expected": of,
            }
        )

    def metrics(self, text: str, lines: int | None = None) -> Watch:
        return self.take({"t": "metrics", "text": text, "lines": lines or text.count("\n")})

    def ready(self, status: int | None = 200, port: str = "open") -> Watch:
        return self.take({"t": "ready", "status": status, "port": port})

    def gpus(self, gpus: Sequence[Mapping[str, Any]], present: Sequence[str] = (), via: str = "nvml") -> Watch:
        return self.take({"t": "gpus", "via": via, "gpus": list(gpus), "present": list(present)})

    def running(self, profile: str, axes: Mapping[str, Any], stable: Mapping[str, Any]) -> Watch:
        return self.take(
            {
                "t": "ddtune",
                "adopted": True,
                "running": {"release": "r", "profile": profile, "meta": {"axes": axes}},
                "stable": {"release": "s", "profile": "stable", "meta": {"axes": stable}},
            }
        )

    @property
    def shown(self) -> Snapshot:
        return snapshot(self.state, self.at)


def eight(first: int = 0x1B, domain: str = "00000000", **values: Any) -> list[dict[str, Any]]:
    """Eight GPUs as the collector gives them."""
    return [
        {"index": index, "uuid": f"GPU-{index}", "pci": f"{domain}:{first + index:02X}:00.0", "name": "B300", **values}
        for index in range(8)
    ]
