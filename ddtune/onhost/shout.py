"""Words for whoever looks after the host."""

from __future__ import annotations

import sys
from contextlib import suppress


def shout(text: str) -> None:
    """Say ``text`` where somebody at the host sees it: the journal at crit, and the console."""
    print(f"<2>ddtune: {text}", file=sys.stderr, flush=True)
    with suppress(OSError), open("/dev/console", "w", encoding="utf-8") as console:
        console.write(f"\r\nddtune: {text}\r\n")
