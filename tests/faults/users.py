"""Users of a guest's service: each asks one long question, and then short ones until they are told to stop."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

PAUSE_S = 0.3


def ask(port: int, tokens: int, *, prompt: str = "Tell a story.", timeout: float = 120) -> dict[str, Any]:
    """The answer of exactly ``tokens`` tokens, or of fewer where it is cut. Raises OSError."""
    sampling = {"max_new_tokens": tokens, "ignore_eos": True}
    body = json.dumps({"text": prompt, "sampling_params": sampling}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/generate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return dict(json.loads(answer.read()))


class Users:
    """What happened to them: ``cut`` of the long answers, and when each short one was answered (CLOCK_BOOTTIME)."""

    def __init__(self, port: int, count: int, tokens: int) -> None:
        self.cut = 0
        self.whole = 0
        self.short: list[float] = []
        self._port, self._tokens = port, tokens
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._one, args=(number,), daemon=True) for number in range(count)]

    @contextlib.contextmanager
    def asking(self) -> Iterator[Users]:
        """They ask while the block runs."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(150)

    def answered(self, start: float, end: float) -> int:
        """Short answers that came between two moments of CLOCK_BOOTTIME."""
        with self._lock:
            return sum(start < at < end for at in self.short)

    def _one(self, number: int) -> None:
        try:
            answer = ask(self._port, self._tokens, prompt=f"Tell a long story, the {number}th.")
            cut = answer["meta_info"]["finish_reason"]["type"] == "abort"
        except OSError:
            cut = True
        with self._lock:
            self.cut += cut
            self.whole += not cut
        while not self._over.wait(PAUSE_S):
            with contextlib.suppress(OSError):
                ask(self._port, 4, timeout=10)
                with self._lock:
                    self.short.append(time.clock_gettime(time.CLOCK_BOOTTIME))
