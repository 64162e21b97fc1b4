"""A make-believe host for the collector: systemctl, journalctl, NVML, an engine's API and its processes."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

METRICS = """\
# HELP sglang:num_running_reqs text
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m, {x}",tp_rank="0"} 3.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0"} 1.0
sglang:realtime_tokens_total{engine_type="unified",mode="decode",model_name="m"} %d
sglang:num_requests_total{model_name="m"} %d
sglang:prompt_tokens_histogram_bucket{le="1.0",model_name="m"} 4.0
python_info{version="3"} 1.0
"""
LOADS = {"timestamp": "x", "loads": [{"num_running_reqs": 3, "num_waiting_reqs": 1, "max_running_requests": 8}]}
KEY = "sekret-key"
INFO = {
    "version": "0.5.0",
    "api_key": KEY,
    "speculative_algorithm": "DDTREE",
    "internal_states": [{"api_key": KEY, "avg_spec_accept_length": None}],
}

NVML = """
NVML_GPM_METRICS_GET_VERSION = 1
class NVMLError(Exception):
    def __init__(self, value):
        super().__init__("code %d" % value)
        self.value = value
class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)
class c_nvmlGpmMetricsGet_t:
    def __init__(self):
        self.metrics = [Record(metricId=0, nvmlReturn=0, value=0.0) for _ in range(333)]
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 3
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(handle): return "GPU-%d" % handle
def nvmlDeviceGetPciInfo(handle): return Record(busId=b"00000000:1%d:00.0" % handle)
def nvmlDeviceGetName(handle): return "Fake"
def nvmlDeviceGetCudaComputeCapability(handle): return (10, 3)
def nvmlDeviceGetPowerUsage(handle):
    if handle == 2:
        raise NVMLError(15)
    return 400000 + handle
def nvmlDeviceGetEnforcedPowerLimit(handle): return 1100000
def nvmlDeviceGetUtilizationRates(handle): raise NVMLError(3)
def nvmlDeviceGetMemoryInfo(handle): return Record(used=1048576, total=4194304)
def nvmlDeviceGetTemperature(handle, sensor): return 50
def nvmlDeviceGetClockInfo(handle, kind): return 1900
def nvmlDeviceGetCurrentClocksEventReasons(handle): return 0x5
def nvmlGpmQueryDeviceSupport(handle): return Record(isSupportedDevice=handle != 1)
def nvmlGpmSampleAlloc(): return object()
def nvmlGpmSampleGet(handle, sample): return sample
def nvmlGpmMetricsGet(query):
    for metric in query.metrics[:query.numMetrics]:
        metric.value = float("nan") if metric.metricId == 60 else metric.metricId * 1.5
        metric.nvmlReturn = 2 if metric.metricId == 61 else 0
"""

_SYSTEMCTL = """\
pid=$(cat {root}/pid)
case "$*" in
*list-units*) printf 'other.service loaded active running x\\nengine.service loaded active running x\\n';;
*Id,MainPID*) printf 'MainPID=1\\nId=other.service\\n\\nMainPID=%s\\nId=engine.service\\n' "$pid";;
*show*) printf 'ActiveState=active\\nSubState=running\\nMainPID=%s\\nInvocationID=abc\\nNRestarts=0\\n' "$pid";;
esac
"""
_JOURNALCTL = """\
printf '%s\\n' "$*" >> {calls}
echo $$ >> {pids}
case "$*" in
*-k*) cat {root}/kernel.jsonl;;
*) cat {root}/unit.jsonl; echo 'Hint: You are currently not seeing messages from other users and the system.' >&2;;
esac
exec sleep 600
"""
_ENGINE = "(exec -a sglang::scheduler_TP0 sleep 600) & (exec -a sglang::scheduler_TP1 sleep 600) & wait"


def entry(at: float, message: object, cursor: str, **fields: object) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": str(int(at * 1e6)), "__CURSOR": cursor, "MESSAGE": message, **fields})


@dataclass
class Box:
    root: Path
    calls: Path
    pids: Path
    port: int = 0
    steps: int = 0
    requested: list[str] = field(default_factory=list)
    engine: subprocess.Popen[bytes] | None = None

    def config(self, **changed: object) -> bytes:
        asked = {"api_port": self.port, "root": str(self.root), "tick_s": 0.1, **changed}
        return json.dumps(asked).encode() + b"\n"

    def journal_pids(self) -> list[int]:
        return [int(word) for word in self.pids.read_text().split()]


@contextlib.contextmanager
def box(folder: Path) -> Iterator[Box]:
    root = folder / "root"
    made = Box(root, folder / "journal-calls", folder / "journal-pids")
    lib = root / "usr/local/lib/ddtune/1"
    lib.mkdir(parents=True)
    for name, script in (("systemctl", _SYSTEMCTL), ("journalctl", _JOURNALCTL)):
        path = folder / name
        path.write_text("#!/bin/bash\n" + script.format(root=root, calls=made.calls, pids=made.pids))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (lib / "install.json").write_text(
        json.dumps({name: str(folder / name) for name in ("systemctl", "journalctl")} | {"root": str(root)})
    )
    (folder / "pynvml.py").write_text(NVML)
    (root / "unit.jsonl").write_text(
        entry(1.0, "Started engine.service", "u1", _PID="1")
        + "\n"
        + entry(2.0, [91, 255, 93, 27], "u2", PRIORITY="6", _PID="77")
        + "\n"
    )
    (root / "kernel.jsonl").write_text(
        entry(3.0, "usb 1-1: new device", "k1") + "\n" + entry(4.0, "NVRM: Xid (PCI:0000:10:00): 31, x", "k2") + "\n"
    )
    with _engine(made), _api(made):
        yield made


@contextlib.contextmanager
def _engine(made: Box) -> Iterator[None]:
    made.engine = subprocess.Popen(
        ["bash", "-c", _ENGINE, "-m", "sglang.launch_server", "--tp-size", "2", "--api-key", KEY],
        start_new_session=True,
    )
    (made.root / "pid").write_text(str(made.engine.pid))
    try:
        yield
    finally:
        os.killpg(made.engine.pid, signal.SIGKILL)
        made.engine.wait()


@contextlib.contextmanager
def _api(made: Box) -> Iterator[None]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.requested.append(self.path)
            status, body = 200, b""
            if self.path == "/metrics":
                made.steps += 1
                body = (METRICS % (made.steps * 100, made.steps)).encode()
            elif self.path.startswith("/v1/loads"):
                allowed = self.headers["Authorization"] == f"Bearer {KEY}"
                status, body = (200, json.dumps(LOADS).encode()) if allowed else (401, b"{}")
            elif self.path == "/get_server_info":
                body = json.dumps(INFO).encode()
            elif self.path != "/ready":
                status = 404
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
