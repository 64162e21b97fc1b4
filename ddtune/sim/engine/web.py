"""A small HTTP/1.1 server over h11 that answers as uvicorn does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlsplit

import h11


@dataclass(frozen=True)
class Request:
    """One request; ``headers`` by lower-case name."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    peer: str

    def json(self) -> Any:
        """The body as JSON; None when there is none. Raises ValueError."""
        return json.loads(self.body) if self.body.strip() else None


@dataclass(frozen=True)
class Response:
    """One answer; with ``chunks`` the body is streamed and ``body`` not used."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None
    chunks: AsyncIterator[bytes] | None = field(default=None)

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> Response:
        """``value`` in the compact JSON that the real server writes."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return cls(status, text.encode("utf-8", "surrogatepass"), "application/json")

    @classmethod
    def of_text(cls, text: str, status: int = 200) -> Response:
        """Plain text without a content type, as the real server's bare responses."""
        return cls(status, text.encode())


Handler = Callable[[Request], Awaitable[Response]]


class Connection(asyncio.Protocol):
    """One client connection: requests one after another; a lost client cancels the request in flight."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._http = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._drained = asyncio.Event()
        self._drained.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remembers the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _exc: Exception | None) -> None:
        """Nobody waits any more."""
        self._transport = None
        self._drained.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """It caught up."""
        self._drained.set()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        self._http.receive_data(data)
        self._pump()

    def _pump(self) -> None:
        while self._task is None and self._transport is not None:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError:
                self._transport.close()
                return
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._head, self._body = event, []
            elif isinstance(event, h11.Data):
                self._body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._task = asyncio.get_running_loop().create_task(self._serve())
            else:
                self._transport.close()
                return

    def _request(self) -> Request:
        head = self._head
        assert head is not None
        assert self._transport is not None
        split = urlsplit(head.target.decode("latin-1"))
        peer = self._transport.get_extra_info("peername")
        return Request(
            method=head.method.decode("latin-1"),
            path=split.path,
            query=parse_qs(split.query),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
            body=b"".join(self._body),
            peer=f"{peer[0]}:{peer[1]}" if peer else "-",
        )

    async def _serve(self) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._respond(await self._handler(self._request()))
        finally:
            self._task = None
            whole = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
            if self._transport is not None and not whole:
                self._transport.close()
        if self._transport is not None and whole:
            self._http.start_next_cycle()
            self._pump()

    async def _respond(self, response: Response) -> None:
        headers = [("date", formatdate(usegmt=True)), ("server", "uvicorn")]
        if response.chunks is None:
            headers.append(("content-length", str(len(response.body))))
        else:
            headers.append(("transfer-encoding", "chunked"))
        if response.content_type:
            headers.append(("content-type", response.content_type))
        headers.append(("vary", "Origin"))
        await self._send(h11.Response(status_code=response.status, headers=headers))
        if response.chunks is None:
            await self._send(h11.Data(data=response.body))
        else:
            async for chunk in response.chunks:
                await self._send(h11.Data(data=chunk))
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data and self._transport is not None:
            self._transport.write(data)
            await self._drained.wait()
