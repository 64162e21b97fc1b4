"""The engine's API on loopback, read without ever asking it to generate: ``/metrics``, ``/v1/loads``, ``/ready``."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from . import clock
from .api import ApiError, read_key
from .collect_metrics import filtered

_LIMIT_S = 2.0
_MAX_BODY = 4 << 20
# The engine logs each request; what seldom changes is asked for seldom while all is well.
_SELDOM_S = 5.0
_LOADS = "/v1/loads?include=core,spec,queues"


class NoAnswerError(Exception):
    """``port`` says what the port does instead: ``refused`` or ``silent``."""

    def __init__(self, port: str) -> None:
        super().__init__(port)
        self.port = port


class Api:
    """One kept connection, one request in flight. ``note`` takes a sentence, once for each cause.

    The key comes from ``key_file``, else from the service's own ``argv``; it is sent to the service alone.
    """

    def __init__(
        self, port: int, key_file: Optional[str], argv: Callable[[], Sequence[str]], note: Callable[[str], None]
    ) -> None:
        self._port = port
        self._key_file = key_file
        self._argv = argv
        self._note = note
        self._noted: set[str] = set()
        self._connection: Optional[http.client.HTTPConnection] = None
        self._has_ready = True
        self._well = False
        self._asked_at = 0.0

    def lines(self) -> list[dict[str, Any]]:
        """``metrics`` and ``loads`` where they answered, and ``ready``, which also says what the port does.

        With metrics and readiness as they should be, ``loads`` and ``ready`` come every few seconds only.
        """
        found: list[dict[str, Any]] = []
        try:
            status, body = self._get("/metrics", {})
            if status == 200:
                found.append({"t": "metrics", "at": clock.wall(), "text": filtered(body.decode(errors="replace"))})
            elif status == 404:
                self._say("no-metrics", "the service runs without --enable-metrics: its rates cannot be read.")
            if status != 200 or not self._well or time.monotonic() - self._asked_at >= _SELDOM_S:
                self._asked_at = time.monotonic()
                found += self._loads()
                ready = self._ready()
                self._well = ready == 200 or not self._has_ready
                found.append({"t": "ready", "at": clock.wall(), "status": ready, "port": "open"})
        except NoAnswerError as error:
            self.close()
            self._well = False
            found.append({"t": "ready", "at": clock.wall(), "status": None, "port": error.port})
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _loads(self) -> list[dict[str, Any]]:
        argv = self._argv()
        status, body = self._get(_LOADS, self._authorization(argv))
        if status in (401, 403):
            if argv:
                self._say("key", "the service wants an API key: set api_key_file to a file that this login can read.")
            else:
                self._asked_at = 0.0  # The key may stand in a command line that is yet to be read.
        try:
            loads = json.loads(body) if status == 200 else None
        except ValueError:
            loads = None
        return [{"t": "loads", "at": clock.wall(), "body": loads}] if isinstance(loads, dict) else []

    def _ready(self) -> Optional[int]:
        if not self._has_ready:
            return None
        status, _ = self._get("/ready", {})
        self._has_ready = status != 404
        return status if status in (200, 503) else None

    def _authorization(self, argv: Sequence[str]) -> dict[str, str]:
        try:
            key = read_key(self._key_file, argv)
            return {"Authorization": f"Bearer {key}"} if key else {}
        except ApiError as error:
            self._say("key-file", f"{error}.")
            return {}

    def _get(self, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        # A server may close a kept connection at any time; a fresh one is then tried once.
        reused = self._connection is not None
        try:
            return self._ask(path, headers)
        except (http.client.HTTPException, ConnectionError) as error:
            self.close()
            if reused:
                return self._get(path, headers)
            raise NoAnswerError("refused" if isinstance(error, ConnectionRefusedError) else "silent") from None
        except OSError:
            raise NoAnswerError("silent") from None

    def _ask(self, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_LIMIT_S)
        self._connection.request("GET", path, headers=dict(headers))
        response = self._connection.getresponse()
        body = response.read(_MAX_BODY)
        if not response.isclosed():
            self.close()
        return response.status, body

    def _say(self, cause: str, text: str) -> None:
        if cause not in self._noted:
            self._noted.add(cause)
            self._note(text)
