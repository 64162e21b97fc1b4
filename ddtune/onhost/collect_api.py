"""The engine's API on loopback, read without ever asking it to generate: ``/metrics``, ``/v1/loads``, ``/ready``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

from . import clock
from .api import ApiError, read_key
from .collect_http import Connection, CutError, NoAnswerError
from .collect_metrics import Sieve

_LIMIT_S = 2.0
_INFO_LIMIT_S = 3.0
# The engine logs each request; what seldom changes is asked for seldom while all is well.
_SELDOM_S = 5.0
_LATER_S = 30.0
_LOADS = ("/v1/loads?include=core,spec,queues", "/get_load")
_INFO = ("/server_info", "/get_server_info")

Note = Callable[[str], None]


class Key:
    """The API key of one service: from ``key_file``, else from its own ``argv``. It is sent to the service alone."""

    def __init__(self, key_file: Optional[str], argv: Callable[[], Sequence[str]], note: Note) -> None:
        self._key_file = key_file
        self._argv = argv
        self._note = Once(note)

    def headers(self) -> tuple[dict[str, str], bool]:
        """What to send, and whether the command line that may hold the key was known."""
        argv = self._argv()
        try:
            key = read_key(self._key_file, argv)
            return {"Authorization": f"Bearer {key}"} if key else {}, bool(argv)
        except ApiError as error:
            self._note(f"{error}.")
            return {}, bool(argv)

    def refused(self) -> None:
        """The service did not take what a known command line or file gave."""
        self._note("the service wants an API key: set api_key_file to a file that this login can read.")


class Once:
    """Passes on each sentence the first time."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._said: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._note(text)


class Api:
    """What is read on each tick."""

    def __init__(self, port: int, key: Key, note: Note) -> None:
        self._connection = Connection(port)
        self._key = key
        self._note = Once(note)
        self._has_ready = True
        self._loads_at = list(_LOADS)
        self._loads_after = 0.0
        self._well = False
        self._asked_at = 0.0
        self.open = False
        """Whether the last poll found the service answering and ready."""

    def lines(self) -> list[dict[str, Any]]:
        """``metrics`` and ``loads`` where they answered, and ``ready``, which also says what the port does.

        With metrics and readiness as they should be, ``loads`` and ``ready`` come every few seconds only.
        """
        found: list[dict[str, Any]] = []
        try:
            status = self._metrics(found)
            if status != 200 or not self._well or time.monotonic() - self._asked_at >= _SELDOM_S:
                self._asked_at = time.monotonic()
                found += self._loads()
                ready = self._ready()
                self._well = self.open = ready == 200 or not self._has_ready
                found.append({"t": "ready", "at": clock.wall(), "status": ready, "port": "open"})
        except NoAnswerError as error:
            self.close()
            self._well = self.open = False
            self._loads_at, self._has_ready = list(_LOADS), True
            found.append({"t": "ready", "at": clock.wall(), "status": None, "port": error.port})
        return found

    def close(self) -> None:
        self._connection.close()

    def _metrics(self, found: list[dict[str, Any]]) -> int:
        sieve = Sieve()
        try:
            status, _ = self._connection.get("/metrics", {}, _LIMIT_S, sieve.feed)
        except CutError:
            # A part of the counters would look like a restart.
            self._note("an answer of /metrics was cut off, and is left out.")
            return 0
        if status == 200:
            found.append({"t": "metrics", "at": clock.wall(), "text": sieve.text(), "lines": sieve.lines})
        elif status == 404:
            self._note("the service runs without --enable-metrics: its rates come from its log.")
        return status

    def _loads(self) -> list[dict[str, Any]]:
        while self._loads_at and time.monotonic() >= self._loads_after:
            path, (headers, known) = self._loads_at[0], self._key.headers()
            try:
                status, body = self._connection.get(path, headers, _LIMIT_S)
            except (NoAnswerError, CutError):
                # It may hang until the first request, and then says nothing of the service's health.
                self._loads_after = time.monotonic() + _LATER_S
                break
            if status == 404:
                self._loads_at.pop(0)
                continue
            if status in (401, 403):
                if known:
                    self._key.refused()
                else:
                    self._asked_at = 0.0  # The key may stand in a command line that is yet to be read.
            loads = _json(body) if status == 200 else None
            return [{"t": "loads", "at": clock.wall(), "body": loads}] if isinstance(loads, (dict, list)) else []
        return []

    def _ready(self) -> Optional[int]:
        if not self._has_ready:
            return None
        try:
            status, _ = self._connection.get("/ready", {}, _LIMIT_S)
        except CutError:
            return None
        self._has_ready = status != 404
        return status if status in (200, 503) else None


class Info:
    """The engine's account of itself, once for each of its runs: it asks the scheduler, and so may hang with it."""

    def __init__(self, port: int, key: Key, is_open: Callable[[], bool], run: Callable[[], str]) -> None:
        self._connection = Connection(port)
        self._key = key
        self._is_open = is_open
        self._run = run
        self._known = ""
        self._after = 0.0

    def lines(self) -> list[dict[str, Any]]:
        """A line of kind ``info`` when there is news."""
        run = self._run()
        if not run or run == self._known or not self._is_open() or time.monotonic() < self._after:
            return []
        self._after = time.monotonic() + _LATER_S
        try:
            for path in _INFO:
                status, body = self._connection.get(path, self._key.headers()[0], _INFO_LIMIT_S)
                if status != 404:
                    break
        except (NoAnswerError, CutError):
            return []
        finally:
            self._connection.close()
        info = _json(body) if status == 200 else None
        if not isinstance(info, dict):
            return []
        self._known = run
        return [{"t": "info", "at": clock.wall(), "run": run, "body": chosen(info)}]


_READ = ("version", "model_path")


def chosen(info: dict[str, Any]) -> dict[str, Any]:
    """What ddtune reads of ``/server_info``, by name: keys are among its arguments and never leave the host."""
    states = info.get("internal_states")
    ranks = [state for state in states if isinstance(state, dict)] if isinstance(states, list) else []
    return {
        **{name: info[name] for name in _READ if name in info},
        "internal_states": [{name: state[name] for name in _READ if name in state} for state in ranks],
    }


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
