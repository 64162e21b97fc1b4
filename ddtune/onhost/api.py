"""The engine's HTTP API on the host's loopback, with limits of our own on connecting, reading and size."""

from __future__ import annotations

import http.client
import json
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .loopback import Loopback

MAX_BODY = 16 * 1024 * 1024
"""Bytes of an answer that are read at most."""

_KEY = re.compile(r"[\x21-\x7e]{1,512}")


class ApiError(Exception):
    """No whole answer came. ``kind`` is ``refused``, ``timeout``, ``closed``, ``bad_answer`` or ``bad_key``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Reply:
    """An HTTP answer, whatever its status."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; raises ``ApiError`` (``bad_answer``) when it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise ApiError("bad_answer", f"the API answered {self.status} with something that is not JSON") from None


@dataclass(frozen=True)
class Api:
    """The API of one engine on this host's loopback.

    ``key`` is sent as a Bearer token and is never part of an error. ``connect_s`` limits the connection and
    ``limit_s`` the whole call, both in seconds.
    """

    port: int
    key: str | None = None
    connect_s: float = 2.0
    limit_s: float = 10.0

    def __repr__(self) -> str:
        return f"Api(port={self.port})"

    def get(self, path: str, limit_s: float | None = None) -> Reply:
        """GET ``path``; raises ``ApiError`` when no whole answer came."""
        return self._call("GET", path, None, limit_s)

    def post(self, path: str, body: Any, limit_s: float | None = None) -> Reply:
        """POST ``body`` as JSON to ``path``; raises ``ApiError`` when no whole answer came."""
        return self._call("POST", path, json.dumps(body).encode(), limit_s)

    def _call(self, method: str, path: str, body: bytes | None, limit_s: float | None) -> Reply:
        end = time.monotonic() + (self.limit_s if limit_s is None else limit_s)
        connection = Loopback(self.port, self.connect_s)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        try:
            connection.connect()
            connection.sock.settimeout(max(0.01, end - time.monotonic()))
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Reply(response.status, _read(connection, response, end))
        except ConnectionRefusedError:
            raise ApiError("refused", f"nothing listens on 127.0.0.1:{self.port} or [::1]:{self.port}") from None
        except TimeoutError:
            raise ApiError("timeout", f"127.0.0.1:{self.port}{path} did not answer in time") from None
        except (OSError, http.client.HTTPException) as error:
            kind = "timeout" if "timed out" in str(error) else "closed"
            raise ApiError(kind, f"127.0.0.1:{self.port}{path} gave no whole answer") from None
        finally:
            connection.close()


def _read(connection: http.client.HTTPConnection, response: http.client.HTTPResponse, end: float) -> bytes:
    """The whole body within the time left: a server that drips must not hold us beyond it."""
    parts: list[bytes] = []
    size = 0
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
        part = response.read1(65536)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            raise ApiError("bad_answer", f"127.0.0.1:{connection.port} answered more than {MAX_BODY} bytes")


def flag_value(argv: Sequence[str], flag: str) -> str | None:
    """The last value of ``flag`` in ``argv``, written ``--flag value`` or ``--flag=value``; None when absent."""
    found = None
    for index, word in enumerate(argv):
        if word == flag and index + 1 < len(argv):
            found = argv[index + 1]
        elif word.startswith(flag + "="):
            found = word[len(flag) + 1 :]
    return found


def read_key(path: str | None, argv: Sequence[str]) -> str | None:
    """The API key: the one line of the file at ``path``, else ``--api-key`` of the running argv, else None.

    Raises ``ApiError`` (``bad_key``) for a file that is missing or holds anything but one line of printable
    characters: whatever it holds is sent to a port, so it must look like a key.
    """
    if path is None:
        return flag_value(argv, "--api-key")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            text = file.read(1024).decode("ascii", "replace").strip() if regular else ""
    except OSError as error:
        raise ApiError("bad_key", f"the API key file {path} cannot be read: {error.strerror}") from None
    if not _KEY.fullmatch(text):
        raise ApiError("bad_key", f"the API key file {path} does not hold one key")
    return text


def read_admin_key(path: str | None, argv: Sequence[str]) -> str | None:
    """The key for ``/abort_request``: ``--admin-api-key`` where the engine has one, else the API key."""
    return flag_value(argv, "--admin-api-key") or read_key(path, argv)
