"""The end of a child process of ours."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import Process


async def end(process: Process) -> None:
    """Ends ``process`` where it still runs, waits for it, and closes its pipes."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    # asyncio closes the pipes in a later turn of the loop, of which there may be none.
    process._transport.close()  # type: ignore[attr-defined]  # there is no public way
    await asyncio.sleep(0)
