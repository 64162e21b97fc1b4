"""What watching costs a host: the collector's CPU and bytes a second, with eight GPUs and a real-size ``/metrics``.

Run it with ``python -m tests.benchmarks.watching [--seconds N] [--hz N]`` from the root of the repository. The GPUs are
a stand-in that answers at once, so that its own cost is seen beside a run without it; the engine serves a real scrape
of an SGLang server whose counters move. journalctl and systemctl are stand-ins too: their own CPU is not counted.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ddtune.host.bundle import loader_argv, loader_payload
from tests.unit.collector_box import NVML, box

METRICS = Path(__file__).parent.parent / "contract/samples/0.5.23/metrics_under_load.body"
SETTLE_S = 3.0
HEARTBEAT_S = 5.0
_COUNTER = re.compile(r"((?:_total|_bucket|_sum|_count)\{[^}]*\}) ([\d.e+]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Cost:
    """``cpu_percent`` is of one core. ``metrics_bytes`` is the size of one scrape."""

    hz: float
    seconds: float
    gpus: int
    metrics_bytes: int
    cpu_percent: float
    bytes_per_s: float
    rss_mib: float


def eight() -> str:
    """The stand-in with eight GPUs that draw what changes from one tick to the next."""
    source = NVML.replace("def nvmlDeviceGetCount(): return 3", "def nvmlDeviceGetCount(): return 8")
    source = source.replace("    if handle == 2:\n        raise NVMLError(15)\n", "")
    source = source.replace("return 400000 + handle", "return 400000 + (__import__('time').time_ns() >> 20) % 90000")
    source = source.replace("isSupportedDevice=handle != 1", "isSupportedDevice=True")
    return source.replace("metric.metricId * 1.5", "metric.metricId + (__import__('time').time_ns() >> 20) % 97 / 7")


@contextmanager
def engine() -> Iterator[tuple[int, int]]:
    """A server on loopback with a real scrape whose counters move; its port and the scrape's size."""
    text, step = METRICS.read_text(), [0]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            step[0] += 1
            moved = _COUNTER.sub(lambda found: f"{found[1]} {float(found[2]) * (1 + step[0] / 50):.1f}", text)
            body = moved.encode() if self.path == "/metrics" else b"{}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], len(text)
    finally:
        server.shutdown()
        server.server_close()


def watch(seconds: float, hz: float, gpus: bool = True, packed: bool = True) -> Cost:
    """Run the real collector for a while as a process of its own."""
    with tempfile.TemporaryDirectory() as folder, box(Path(folder)) as made, engine() as (port, size):
        asked = json.loads(made.config()) | {"api_port": port, "tick_s": 1 / hz, "packed": packed}
        extra = {"pynvml": eight() if gpus else "raise OSError('none')"}
        process = subprocess.Popen(loader_argv(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin
        assert process.stdout
        payload = loader_payload("ddtune.onhost.collector", extra)
        process.stdin.write(payload + json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        counted, descriptor = [0], process.stdout.fileno()

        def read() -> None:
            while data := os.read(descriptor, 1 << 16):
                counted[0] += len(data)

        threading.Thread(target=read, daemon=True).start()
        _beat(process, SETTLE_S)
        begun, cpu, sent = time.monotonic(), _cpu_s(process.pid), counted[0]
        _beat(process, seconds)
        took, used, out = time.monotonic() - begun, _cpu_s(process.pid) - cpu, counted[0] - sent
        rss = _rss_mib(process.pid)
        process.stdin.close()
        process.wait(10)
    return Cost(hz, round(took, 1), 8 if gpus else 0, size, round(100 * used / took, 2), round(out / took), rss)


def _beat(process: subprocess.Popen[bytes], seconds: float) -> None:
    assert process.stdin
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(HEARTBEAT_S, left))
        process.stdin.write(b"\n")
        process.stdin.flush()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--hz", type=float, default=2.0)
    asked = parser.parse_args()
    for name, gpus, packed in (("eight GPUs", True, True), ("no GPUs", False, True), ("not packed", True, False)):
        print(name, json.dumps(asdict(watch(asked.seconds, asked.hz, gpus, packed))), flush=True)


if __name__ == "__main__":
    main()
