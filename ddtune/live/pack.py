"""Lines that the collector deflated, as they were."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

_SYNC = b"\x00\x00\xff\xff"
_MOST = 16 << 20


class Unpacker:
    """One stream's lines. Pieces build on each other: after one that cannot be read nothing more can."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(-15)

    def lines(self, text: bytes) -> list[dict[str, Any]]:
        """The JSON objects in one line of output, packed or not; what is none is left out.

        Raises ValueError when a packed line cannot be read.
        """
        line = _object(text)
        if line is None:
            return []
        packed = line.get("z")
        if not isinstance(packed, str):
            return [line]
        try:
            data = self._inflate.decompress(base64.b64decode(packed, validate=True) + _SYNC, _MOST)
        except (zlib.error, binascii.Error) as error:
            raise ValueError(f"a packed line cannot be read: {error}") from None
        if self._inflate.unconsumed_tail:
            raise ValueError(f"a packed line holds more than {_MOST >> 20} MiB")
        return [found for part in data.split(b"\n") if (found := _object(part)) is not None]


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None
