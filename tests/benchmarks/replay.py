"""A replayed log at full speed: lines a second, memory, and what the slowest lines cost.

Run it with ``python -m tests.benchmarks.replay [--lines N]`` from the root of the repository.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ddtune.live.reduce import reduce
from ddtune.live.state import State
from ddtune.onhost.collect_journal import parse_entry
from ddtune.onhost.collect_outbox import Outbox, Packer
from tests.unit.engine_samples import text

FILES = ("startup-0.5.23", "ngram16_g", "nospec_g", "server-0.5.23", "hang", "kill9", "oom_start", "oom_capture")
TICK_LINES = 50
RESTART_LINES = 20_000


@dataclass(frozen=True)
class Result:
    """Rates are lines a second of CPU; times are CPU microseconds of one line on the operator's side; memory is MiB."""

    lines: int
    host_lines_per_s: float
    operator_lines_per_s: float
    p50_us: float
    p999_us: float
    longest_us: float
    packed_bytes_per_line: float
    grown_mib: float
    incidents: int


def mixed(count: int, seed: int = 1) -> Iterator[bytes]:
    """Journal entries as journalctl gives them: real runs with ranks mixed in, faults, floods and huge lines."""
    rng = random.Random(seed)
    real = [line.partition(" ")[2] for name in FILES for line in text(f"{name}.log").splitlines() if line.strip()]
    for number, line in zip(range(count), itertools.cycle(real), strict=False):
        pid, body = 100 + rng.randrange(8), line
        if number % RESTART_LINES == 0:
            pid, body = 1, "Started engine.service - SGLang."
        elif number % 1000 == 7:
            body = f"Received output for rid='{rng.getrandbits(128):032x}' but the state was deleted."
        elif number % 5000 == 11:
            body = f"Watchdog timeout (self.watchdog_timeout=300) input_ids=[{', '.join(['128000'] * 6000)}]"
        elif rng.random() < 0.6:
            body = (
                f"[2026-01-01 00:00:00 TP{pid - 100}] Decode batch, #running-req: {rng.randrange(64)}, "
                f"#token: {rng.randrange(9999)}, token usage: 0.{rng.randrange(10, 99)}, "
                f"accept len: 4.{rng.randrange(99)}, "
                f"cuda graph: True, gen throughput (token/s): {rng.randrange(5000)}.5, #queue-req: 0"
            )
        entry = {"MESSAGE": body, "PRIORITY": "6", "_PID": str(pid), "__CURSOR": f"s=1;i={number:x}"}
        yield json.dumps({**entry, "__REALTIME_TIMESTAMP": str(1_700_000_000_000_000 + number * 10_000)}).encode()


def replay(count: int) -> Result:
    """Each line through the host's reader, and one by one through the operator's state."""
    raw = list(mixed(count))
    begun = time.thread_time()
    entries = [entry for line in raw if (entry := parse_entry(line))]
    host_s = time.thread_time() - begun
    packed = _packed(entries)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    state, costs = State("box", tick_s=0.5), []
    for entry in entries:
        line = {"t": "log", "at": entry["at"], "source": "unit", "entries": [entry]}
        begun = time.thread_time()
        state = reduce(state, line, entry["at"])
        costs.append(time.thread_time() - begun)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    total = sum(costs)
    costs.sort()
    return Result(
        lines=len(entries),
        host_lines_per_s=round(len(raw) / host_s),
        operator_lines_per_s=round(len(entries) / total),
        p50_us=round(1e6 * costs[len(costs) // 2], 1),
        p999_us=round(1e6 * costs[int(len(costs) * 0.999)], 1),
        longest_us=round(1e6 * costs[-1], 1),
        packed_bytes_per_line=round(packed / len(entries), 1),
        grown_mib=round(grown / 1024, 1),
        incidents=len(state.incidents),
    )


def _packed(entries: list[dict[str, Any]]) -> int:
    outbox, packer, size = Outbox(), Packer(), 0
    for place, entry in enumerate(entries):
        outbox.log("unit", entry)
        if place % TICK_LINES == 0:
            size += sum(len(packer.pack(line)) for line in iter(outbox.take, None))
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    print(json.dumps(asdict(replay(parser.parse_args().lines)), indent=1))


if __name__ == "__main__":
    main()
