"""The service's keys, so that none of them leaves the host in a line of its log: an engine prints its arguments."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Optional

from .api import ApiError, read_key
from .redact import HIDDEN, SHORTEST, redact_text
from .scrub import secrets_of

_AGAIN_S = 5.0
# The patterns of ``redact`` are slow for a log, and none of them is without one of these.
_SPEAKS = re.compile(r"(?i)key|bearer|secret|passw|credential|_TOKEN")


class Keys:
    """Takes keys out of text: those of ``argv`` and of ``key_file`` by their value, all others by what names them."""

    def __init__(self, key_file: Optional[str]) -> None:
        self.argv: Callable[[], Sequence[str]] = tuple
        self._key_file = key_file
        self._known: Sequence[str] = ()
        self._values: list[str] = []
        self._read_at = 0.0

    def hidden(self, text: str) -> str:
        """``text`` without keys."""
        for value in self._found():
            text = text.replace(value, HIDDEN)
        return redact_text(text) if _SPEAKS.search(text) else text

    def _found(self) -> list[str]:
        argv, now = self.argv(), time.monotonic()
        if argv is not self._known or now - self._read_at > _AGAIN_S or not self._read_at:
            self._known, self._read_at = argv, now
            try:
                own = read_key(self._key_file, argv)
            except ApiError:
                own = None
            found = {key for key in secrets_of([argv], [], own) if len(key) >= SHORTEST}
            spelt = {form for key in found for form in (key, repr(key)[1:-1], json.dumps(key)[1:-1])}
            # Those of an engine that has just ended are still in lines that are yet to be read.
            self._values = sorted({*spelt, *self._values[-16:]}, key=len, reverse=True)
        return self._values
