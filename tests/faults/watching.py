"""A running ``ddtune watch`` on this machine."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.guest import wait_until
from tests.e2e.onhost import STATE
from tests.e2e.operator import HOST
from tests.faults.site import Site


class Watch:
    """A running ``ddtune watch`` and what it has said so far."""

    def __init__(self, site: Site, *options: str) -> None:
        self._out = (site.operator.folder / "watch.log").open("w+")
        self.process = subprocess.Popen(
            site.operator.argv("watch", HOST, "--every", "2", *options),
            env=site.operator.env,
            cwd=site.operator.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )

    @property
    def said(self) -> str:
        return Path(self._out.name).read_text()

    def until(self, text: str, limit_s: float = 120) -> None:
        wait_until(text, lambda: text in self.said or self.process.poll() is not None, limit_s)
        assert text in self.said, self.said

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(130)
        self._out.close()


@contextlib.contextmanager
def watching(site: Site, *options: str) -> Iterator[Watch]:
    watch = Watch(site, *options)
    try:
        watch.until("watching")
        wait_until("it is seen on the host", lambda: site.guest.file(f"{STATE}/watch.json").exists(), 90)
        yield watch
    finally:
        watch.close()
