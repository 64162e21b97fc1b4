"""A connection to a port of this host's own loopback, whichever of the two families the engine listens on."""

from __future__ import annotations

import http.client

FOUR, SIX = "127.0.0.1", "::1"


class Loopback(http.client.HTTPConnection):
    """To 127.0.0.1, and to ::1 where nothing listens there: ``--host ::`` of SGLang's takes IPv6 alone.

    Raises ConnectionRefusedError where neither is listened on.
    """

    def __init__(self, port: int, timeout: float) -> None:
        super().__init__(FOUR, port, timeout=timeout)

    def connect(self) -> None:
        self.host = FOUR
        try:
            super().connect()
        except ConnectionRefusedError as refused:
            self.host = SIX
            try:
                super().connect()
            except TimeoutError:
                raise
            except OSError:
                # A host without IPv6 has other words for it.
                raise refused from None
