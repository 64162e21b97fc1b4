"""The engine's log lines, in SGLang's own shapes, to standard error and (access lines) standard output."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

from ddtune.sim.engine.axes import Axes

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


def reason(status: int) -> str:
    """The reason phrase of an HTTP status."""
    return _REASONS.get(status, "Internal Server Error")


class Log:
    """Writes whole lines, each in one write, so that lines of several sources never mix."""

    def __init__(self, tp_size: int) -> None:
        self._ranked = tp_size > 1

    def raw(self, text: str, fd: int = 2) -> None:
        """``text`` and a newline, without a prefix."""
        # Whoever read the log may be gone; the engine serves on.
        with contextlib.suppress(OSError):
            os.write(fd, (text + "\n").encode())

    def server(self, text: str) -> None:
        """A line of the HTTP server's process."""
        self.raw(f"[{_stamp()}] {text}")

    def rank(self, text: str, rank: int = 0) -> None:
        """A line of one scheduler."""
        self.raw(f"[{_stamp()}{f' TP{rank}' if self._ranked else ''}] {text}")

    def ranks(self, text: str, ranks: Iterable[int]) -> None:
        """The same line of several schedulers."""
        for rank in ranks:
            self.rank(text, rank)

    def access(self, peer: str, method: str, path: str, status: int) -> None:
        """uvicorn's access line."""
        self.raw(f'[{_stamp()}] INFO:     {peer} - "{method} {path} HTTP/1.1" {status} {reason(status)}', 1)


def _stamp() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def decode(
    axes: Axes, *, running: int, used: int, usage: float, queued: int, throughput: float, accept: float, graph: bool
) -> str:
    """A ``Decode batch`` line; accept fields only with speculation."""
    rate = (accept - 1) / max(1, axes.budget)
    spec = f"accept len: {accept:.2f}, accept rate: {rate:.2f}, " if axes.algorithm else ""
    return (
        f"Decode batch, #running-req: {running}, #token: {used}, token usage: {usage:.2f}, {spec}"
        f"cuda graph: {graph}, gen throughput (token/s): {throughput:.2f}, #queue-req: {queued}"
    )


def prefill(
    *, new: int, cached: int, usage: float, running: int, queued: int, graph: bool, throughput: float, seqs: int = 1
) -> str:
    """A ``Prefill batch`` line."""
    return (
        f"Prefill batch, #new-seq: {seqs}, #new-token: {new}, #cached-token: {cached}, token usage: {usage:.2f}, "
        f"#running-req: {running}, #queue-req: {queued}, #pending-token: 0, cuda graph: {graph}, "
        f"input throughput (token/s): {throughput:.2f}"
    )
