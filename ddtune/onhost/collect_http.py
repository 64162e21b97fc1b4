"""One kept connection to the engine's API on loopback: one request in flight, and a limit on each whole answer."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from typing import Optional

from .loopback import Loopback

MAX_BODY = 32 << 20
_CHUNK = 1 << 16


class NoAnswerError(Exception):
    """``port`` says what the port does instead: ``refused`` or ``silent``."""

    def __init__(self, port: str) -> None:
        super().__init__(port)
        self.port = port


class CutError(Exception):
    """An answer began and did not come to its end."""


class Connection:
    """``get`` may be called again after any error."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: Optional[http.client.HTTPConnection] = None

    def get(
        self, path: str, headers: Mapping[str, str], limit_s: float, take: Optional[Callable[[bytes], None]] = None
    ) -> tuple[int, bytes]:
        """Status and body, all of it within ``limit_s``; with ``take`` a good body goes there in pieces instead.

        Raises NoAnswerError, or CutError when ``take`` may have had a part.
        """
        # A server may close a kept connection at any time; a fresh one is then tried once.
        reused = self._connection is not None
        end = time.monotonic() + limit_s
        try:
            response = self._asked(path, headers, end)
        except (http.client.HTTPException, ConnectionError) as error:
            self.close()
            if reused:
                return self.get(path, headers, limit_s, take)
            raise NoAnswerError("refused" if isinstance(error, ConnectionRefusedError) else "silent") from None
        except OSError:
            self.close()
            raise NoAnswerError("silent") from None
        try:
            return response.status, self._read(response, end, take if response.status == 200 else None)
        except (http.client.HTTPException, OSError, CutError):
            self.close()
            raise CutError(path) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _asked(self, path: str, headers: Mapping[str, str], end: float) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = Loopback(self._port, 1.0)
        connection = self._connection
        connection.timeout = max(0.01, end - time.monotonic())
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        connection.request("GET", path, headers=dict(headers))
        return connection.getresponse()

    def _read(self, response: http.client.HTTPResponse, end: float, take: Optional[Callable[[bytes], None]]) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            left = end - time.monotonic()
            if left <= 0 or size > MAX_BODY:
                raise CutError
            if self._connection is not None and self._connection.sock is not None:
                self._connection.sock.settimeout(left)
            part = response.read1(_CHUNK)
            if not part:
                break
            size += len(part)
            (take or parts.append)(part)
        if response.length:
            raise CutError
        if not response.isclosed() or response.will_close:
            self.close()
        return b"".join(parts)
