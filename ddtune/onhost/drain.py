"""Letting the running requests end before the service is stopped."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from collections.abc import Callable

from . import trusted
from .api import Api, ApiError
from .paths import UnitPaths

POLL_S = 0.5
_ABORT_S = 5.0


class HookError(Exception):
    """The host's own drain hook may not be run, or failed; the text says why."""


def run_hook(paths: UnitPaths, limit_s: float) -> bool:
    """Runs the host's drain hook, if there is one: ``HOOK UNIT``, at most ``limit_s``; answers whether it ran.

    Raises ``HookError`` for a hook that anyone but root could have written, or that fails.
    """
    hook = paths.drain_hook
    try:
        status = os.stat(hook)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HookError(f"the drain hook {hook} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode) or trusted.judged([hook], paths.root):
        raise HookError(f"the drain hook {hook} must be a file of root's that nobody else can write, nor its folders")
    try:
        done = subprocess.run(
            [hook, paths.unit], stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise HookError(f"the drain hook {hook} did not end within {limit_s:g} s") from None
    except OSError as error:
        raise HookError(f"the drain hook {hook} could not be started: {error.strerror}") from None
    if done.returncode:
        raise HookError(f"the drain hook {hook} ended with status {done.returncode}")
    return True


def wait_idle(api: Api, drain_s: float, sleep: Callable[[float], None] = time.sleep) -> float:
    """Waits until no request runs or waits, at most ``drain_s``; answers the seconds waited."""
    start = time.monotonic()
    while in_flight(api) != 0 and time.monotonic() - start < drain_s:
        sleep(min(POLL_S, max(0.0, drain_s - (time.monotonic() - start))))
    return time.monotonic() - start


def in_flight(api: Api) -> int | None:
    """Requests that run or wait now; 0 where nothing listens, None where the API does not say."""
    # A build without the first may have the second.
    for path, read in (("/v1/loads?include=core", _from_loads), ("/metrics", _from_metrics)):
        try:
            reply = api.get(path, 2.0)
        except ApiError as error:
            return 0 if error.kind == "refused" else None
        found = read(reply.body) if reply.status == 200 else None
        if found is not None:
            return found
    return None


def abort_all(api: Api, admin: Api, sleep: Callable[[float], None] = time.sleep) -> int | None:
    """Aborts what is left and waits for it to be gone; answers how many requests that cut, None if unknown.

    ``admin`` is the same API with the key that may abort.
    """
    left = in_flight(api)
    if left == 0:
        return 0
    try:
        admin.post("/abort_request", {"abort_all": True}, 2.0)
    except ApiError:
        return left
    end = time.monotonic() + _ABORT_S
    while in_flight(api) and time.monotonic() < end:
        sleep(0.1)
    return left


def _from_loads(body: bytes) -> int | None:
    try:
        return sum(int(one["num_running_reqs"]) + int(one["num_waiting_reqs"]) for one in json.loads(body)["loads"])
    except (TypeError, KeyError, ValueError):
        return None


def _from_metrics(body: bytes) -> int | None:
    found = None
    for line in body.decode("utf-8", "replace").splitlines():
        family = line.partition("{")[0].partition(" ")[0]
        if family in ("sglang:num_running_reqs", "sglang:num_queue_reqs"):
            try:
                found = (found or 0) + int(float(line.rsplit(" ", 1)[1]))
            except (ValueError, IndexError):
                return None
    return found
