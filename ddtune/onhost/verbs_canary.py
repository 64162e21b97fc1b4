"""The helper's verb that asks the installed kernel, on this GPU and beside the service, if its graphs are sound."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any, Iterator, Optional

from . import canary_mark, clock, fatal, graph_canary, pins, schema
from .api import Api, ApiError, read_key
from .as_user import RunError
from .context import Answer, Host, RefusalError
from .journal import parse
from .ledger import load
from .paths import UnitPaths
from .txn import LIVE

CANARY: schema.Fields = {
    "budgets": schema.many(schema.integer(1, 4096), 64),
    "batches": schema.many(schema.integer(1, 1024), 16),
    "least_free_mib": schema.integer(0, 1 << 24),
    "limit_s": schema.number(1, 3600),
    "seed": schema.maybe(schema.integer(0, 2**31), 0),
    "api_port": schema.maybe(schema.integer(1, 65535)),
    "api_key_file": schema.maybe(schema.path),
}
_INFO = (
    *("version", "model_path", "attention_backend", "prefill_attention_backend", "decode_attention_backend"),
    *("speculative_attention_mode", "speculative_algorithm", "tp_size", "dp_size", "enable_dp_attention"),
    *("enable_deterministic_inference", "page_size", "kv_cache_dtype"),
)
_KNOWN = ("triton",)


def canary(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Facts for a verdict: ``{"info", "backend", "runs", "xids", "kernel_log", "seconds"}``; touches no service.

    ``runs`` is empty where the engine's attention backend is one whose kernel is not known.
    """
    process = host.running(unit)
    if process is None:
        raise RefusalError("unknown", f"{unit} does not run, so that it is not known what to check: start it first")
    paths = host.paths.unit(unit)
    txn = load(paths) if os.path.exists(paths.txn) else None
    if txn is not None and txn.state in LIVE:
        raise RefusalError("busy", f"{txn.op} is under way on {unit}: run the canary before or after it")
    info = _info(host, unit, fields)
    backend = verify_backend(info)
    answer: Answer = {"info": info, "backend": backend, "runs": [], "xids": [], "kernel_log": True, "seconds": 0.0}
    if backend not in _KNOWN or info.get("enable_deterministic_inference"):
        return answer
    request = {
        "budgets": sorted(set(fields["budgets"])),
        "batches": sorted(set(fields["batches"])),
        "least_free_mib": fields["least_free_mib"],
        "seed": fields["seed"],
        "model": str(info.get("model_path") or ""),
        "attention_ranks": attention_ranks(info),
    }
    user = host.systemctl.show(unit, "User").get("User")
    with _alone(paths, unit):
        began = clock.wall()
        latest = began + fields["limit_s"]
        pids: list[int] = []

        def started(now: list[int]) -> None:
            pids[:] = now
            canary_mark.write(paths, now, began, latest)

        canary_mark.write(paths, [], began, latest)
        try:
            runs = graph_canary.run(
                process.argv[0], process.cwd, process.env, user, request, fields["limit_s"], started
            )
        except RunError as error:
            raise RefusalError("unknown", str(error)) from None
        finally:
            ended = clock.wall()
            canary_mark.write(paths, pids, began, ended)
    xids = _xids(host, {"pids": pids, "began": began, "ended": ended})
    return {**answer, "runs": runs, "xids": xids or [], "kernel_log": xids is not None, "seconds": ended - began}


def verify_backend(info: Mapping[str, Any]) -> Optional[str]:
    """The attention backend that verifies a tree: SGLang takes the prefill's by default, and may be told otherwise."""
    kind = "decode" if info.get("speculative_attention_mode") == "decode" else "prefill"
    found = info.get(f"{kind}_attention_backend") or info.get("attention_backend")
    return found if isinstance(found, str) else None


def attention_ranks(info: Mapping[str, Any]) -> int:
    """Among how many ranks the attention heads are shared."""
    tp = info.get("tp_size") if isinstance(info.get("tp_size"), int) else 1
    dp = info.get("dp_size") if info.get("enable_dp_attention") and isinstance(info.get("dp_size"), int) else 1
    return max(1, int(tp or 1) // max(1, int(dp or 1)))


def _info(host: Host, unit: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine says of itself, only what is needed: it holds keys too."""
    process = host.running(unit)
    port, key_file = pins.api_of(host, unit, fields["api_port"], fields["api_key_file"])
    try:
        api = Api(port, read_key(key_file, process.argv if process else ()))
        reply = api.get("/server_info")
        found = reply.json() if reply.status == 200 else api.get("/get_server_info").json()
    except ApiError as error:
        raise RefusalError("unknown", f"the engine of {unit} does not say what it runs: {error}") from None
    return {name: found.get(name) for name in _INFO} if isinstance(found, dict) else {}


@contextmanager
def _alone(paths: UnitPaths, unit: str) -> Iterator[None]:
    paths.ensure_run()
    with open(paths.canary_lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RefusalError("busy", f"another canary runs beside {unit}: one at a time") from None
        yield


def _xids(host: Host, mark: Mapping[str, Any]) -> Optional[list[dict[str, Any]]]:
    """The Xids of the canary's time with whose they are; None where the kernel's log cannot be read."""
    argv = [host.install.journalctl, "--no-pager", "-o", "json", "-k", "-n", "1000"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    found = []
    for line in done.stdout.splitlines():
        entry = parse(line, "kernel")
        said = fatal.xid(entry) if entry and entry.at >= mark["began"] else None
        if entry and said:
            whose = canary_mark.charged(mark, entry.at, said.pid) or "other"
            found.append({"at": entry.at, "pid": said.pid, "text": entry.text[:500], "whose": whose})
    return found
