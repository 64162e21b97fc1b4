"""A whole host in a private folder: sshd, service manager, journal, eight GPUs and an engine that serves on them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from ddtune.onhost.paths import Paths
from ddtune.sim import bare, descriptor, layout, nvml
from ddtune.sim.descriptor import Descriptor
from ddtune.sim.settings import Settings

_SOCKET_PATH_MAX = 100
START_LIMIT_S = 30.0
REAL_START_LIMIT_S = 600.0


class HostError(Exception):
    """The embedded host did not come up, or a program on it failed; one sentence."""


class EmbeddedHost:
    """An embedded host of this process. All that belongs to it ends with ``close`` and with this process.

    ``runtime`` is the folder in which other commands look for it.
    """

    def __init__(self, runtime: Path, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.name = f"demo-{secrets.token_hex(2)}"
        self.root = _private_folder()
        self.api_port = _free_port()
        self._descriptor_path = descriptor.path_for(runtime, self.name)
        self._janitor: asyncio.subprocess.Process | None = None
        self.descriptor: Descriptor | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> Descriptor:
        """Brings the host up, its engine serving; not yet published. Raises HostError."""
        where = (str(self.root), str(self._descriptor_path))
        program = [sys.executable, "-m", "ddtune.sim.hostd", *where, str(self.api_port), self.settings.to_json()]
        # Not on our standard error, which may be a dashboard's terminal.
        with (self.root / "host.log").open("w+") as log:
            janitor = self._janitor = await asyncio.create_subprocess_exec(
                *bare.command("janitor", *where, "--", *program),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                start_new_session=True,
            )
            port = await self._up(janitor, log)
        self.descriptor = self._describe(port)
        return self.descriptor

    async def _up(self, janitor: asyncio.subprocess.Process, log: TextIO) -> int:
        """Waits until logins are possible and the engine serves; the port of the former."""
        assert janitor.stdout is not None
        try:
            async with asyncio.timeout(self._limit_s):
                line = await janitor.stdout.readline()
                if not line:
                    log.seek(0)
                    said = (log.read().strip().splitlines() or ["nothing"])[-1]
                    raise HostError(f"The embedded host ended before it was up and said: {said}")
                await self._serving()
        except TimeoutError:
            await self.close()
            raise HostError(f"The embedded host was not up after {self._limit_s:.0f} s{self._last_words()}.") from None
        except BaseException:
            await self.close()
            raise
        return int(json.loads(line)["port"])

    def _describe(self, port: int) -> Descriptor:
        return Descriptor(
            name=self.name,
            host="127.0.0.1",
            port=port,
            user=layout.USER,
            identity=str(self.root / "client/id_ed25519"),
            known_hosts=str(self.root / "client/known_hosts"),
            root=str(self.root),
            unit=layout.unit_of(self.settings),
            api_port=self.api_port,
            python=sys.executable,
            simulated=self.settings.simulated,
            clock_scale=self.settings.clock_scale,
            nvml_source="" if self.settings.real_gpus else nvml.__file__,
            pid=os.getpid(),
        )

    @property
    def _limit_s(self) -> float:
        return START_LIMIT_S if self.settings.real is None else REAL_START_LIMIT_S

    def _last_words(self) -> str:
        """What a real engine said last."""
        if self.settings.real is None:
            return ""
        try:
            lines = layout.journal_file(self.root).read_text(errors="replace").splitlines()[-1:]
        except OSError:
            return ""
        return "".join(f"; its journal ends with: {json.loads(line)['MESSAGE']}" for line in lines)

    async def _serving(self) -> None:
        while True:
            with contextlib.suppress(OSError, ValueError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.api_port)
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                status = (await reader.readline()).split()
                writer.close()
                if status[1:2] == [b"200"]:
                    return
            await asyncio.sleep(0.02)

    async def install(self, pyz: bytes) -> dict[str, Any]:
        """Has the on-host programs in ``pyz`` install themselves; returns their answer. Raises HostError."""
        bin_folder = self.root / "usr/bin"
        constants = {
            "proto": 1,
            "root": str(self.root),
            "python": sys.executable,
            "systemctl": str(bin_folder / "systemctl"),
            "systemd_run": str(bin_folder / "systemd-run"),
            "journalctl": str(bin_folder / "journalctl"),
        }
        loaded = self.root / "tmp/ddtune-onhost.pyz"
        loaded.write_bytes(pyz)
        payload = {"proto": 1, "verb": "install", "pyz_b64": base64.b64encode(pyz).decode(), "install": constants}
        answer = await self._ask([sys.executable, "-I", str(loaded), "install"], payload)
        loaded.unlink()
        return answer

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Hands one request to the installed helper; returns its answer. Raises HostError where it refuses."""
        return await self._ask([Paths(str(self.root)).helper], request)

    async def _ask(self, argv: Sequence[str], payload: Mapping[str, Any]) -> dict[str, Any]:
        code, out, err = await self.exec(argv, json.dumps(payload).encode())
        try:
            answer: dict[str, Any] = json.loads(out)
        except ValueError:
            text = (err or out).decode("utf-8", "replace").strip().splitlines()[-1:] or ["nothing"]
            raise HostError(f"{Path(argv[-1]).name} ended with status {code} and said: {text[0]}") from None
        if not answer.get("ok"):
            raise HostError(f"The embedded host refused {payload.get('verb')}: {answer.get('message')}")
        return answer

    async def exec(self, argv: Sequence[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Runs a program as a command over SSH would be run; its exit status and both outputs."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=layout.session_env(self.root),
            cwd=self.root / "home" / layout.USER,
        )
        out, err = await process.communicate(stdin)
        return process.returncode or 0, out, err

    def publish(self) -> None:
        """Lets other commands of this user find the host by its name."""
        if self.descriptor is None:
            raise HostError("The embedded host is not up.")
        descriptor.write(self.descriptor, self._descriptor_path)

    async def close(self) -> None:
        """Ends every process of the host and removes its folder."""
        janitor, self._janitor = self._janitor, None
        if janitor is not None:
            assert janitor.stdin is not None
            janitor.stdin.close()
            await janitor.wait()
        descriptor.remove(self._descriptor_path)
        shutil.rmtree(self.root, ignore_errors=True)


def _private_folder() -> Path:
    """A new folder that only this user can enter, with a name short enough for the sockets below it."""
    root = Path(tempfile.mkdtemp(prefix="ddtune-"))
    if len(str(layout.supervisor_socket(root))) > _SOCKET_PATH_MAX:
        root.rmdir()
        root = Path(tempfile.mkdtemp(prefix="ddtune-", dir="/tmp"))
    return root


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
