"""The embedded host's sshd behaves as a real one does for what ddtune asks of it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.unit.sim_host.manager import alive, until
from tests.unit.sim_host.served import Served


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(limited())


def test_a_command_has_its_status_outputs_and_surroundings(host: Served) -> None:
    async def check() -> None:
        async with host.login() as conn:
            done = await conn.run("echo out; echo err >&2; pwd; echo $PATH; exit 7", encoding=None)
            assert done.exit_status == 7
            assert done.stderr == b"err\n"
            out = bytes(done.stdout).decode().splitlines()
            assert out[:2] == ["out", f"{host.found['root']}/home/ops"]
            assert out[2].startswith(f"{host.found['root']}/usr/bin:")
            killed = await conn.run("kill -TERM $$")
            assert killed.exit_signal is not None
            assert killed.exit_signal[0] == "TERM"
            absent = await conn.run("no-such-program", encoding=None)
            assert absent.exit_status == 127

    run(check())


def test_sudo_clears_the_environment_and_runs_the_command(host: Served) -> None:
    async def check() -> None:
        async with host.login() as conn:
            shown = await conn.run("MINE=1 sudo -n /usr/bin/env", check=True)
            env = dict(line.partition("=")[::2] for line in str(shown.stdout).splitlines())
            assert "MINE" not in env
            assert (env["USER"], env["SUDO_USER"]) == ("root", "ops")
            absent = await conn.run("sudo -n /nonexistent/helper")
            assert absent.exit_status == 1
            state = await conn.run("sudo -n systemctl show -P ActiveState sglang-k26.service", check=True)
            assert state.stdout == "active\n"

    run(check())


def test_large_binary_data_passes_both_ways(host: Served) -> None:
    data = os.urandom(1 << 16) * 128

    async def check() -> None:
        async with host.login() as conn:
            back = await conn.run("cat", input=data, encoding=None, check=True)
            assert hashlib.sha256(bytes(back.stdout)).digest() == hashlib.sha256(data).digest()
            counted = await conn.run("head -c 10 >/dev/null; wc -c", input=data, encoding=None)
            assert counted.exit_status == 0

    run(check())


def test_a_slow_reader_holds_the_command_back(host: Served) -> None:
    async def check() -> None:
        async with host.login() as conn:
            marker = Path(host.found["root"]) / "tmp/slow.done"
            command = f"head -c 67108864 /dev/zero; touch {marker}"
            process = await conn.create_process(command, encoding=None, window=1 << 16)
            await process.stdout.readexactly(1 << 16)
            await asyncio.sleep(0.3)  # long enough for all of it, were nothing held back
            assert not marker.exists()
            left = (1 << 26) - (1 << 16)
            while left:
                left -= len(await process.stdout.read(1 << 20))
            await process.wait(check=True)
            assert marker.exists()

    run(check())


def test_end_of_input_is_passed_on(host: Served) -> None:
    async def check() -> None:
        async with host.login() as conn, conn.create_process("wc -c", encoding=None) as process:
            process.stdin.write(b"12345")
            process.stdin.write_eof()
            assert await process.stdout.read() == b"5\n"
            assert (await process.wait()).exit_status == 0

    run(check())


def test_a_signal_reaches_the_command(host: Served) -> None:
    async def check() -> None:
        async with host.login() as conn:
            process = await conn.create_process("echo ready; exec sleep 1000", encoding=None)
            assert await process.stdout.readline() == b"ready\n"
            process.terminate()
            done = await process.wait()
            assert done.exit_signal is not None
            assert done.exit_signal[0] == "TERM"

    run(check())


def test_a_closed_channel_leaves_the_command_running(host: Served) -> None:
    async def check() -> None:
        async with host.login() as conn:
            process = await conn.create_process("echo $$; exec sleep 1000", encoding=None)
            pid = int(await process.stdout.readline())
        assert alive(pid)
        async with host.login() as conn:
            reading = await conn.create_process("echo $$; cat; echo ended >$HOME/ended", encoding=None)
            reader = int(await reading.stdout.readline())
        # What reads its input notices.
        assert until(lambda: not alive(reader))
        assert (Path(host.found["root"]) / "home/ops/ended").exists()
        os.kill(pid, 9)

    run(check())


def test_only_the_right_key_and_the_right_host_key_pass(host: Served, tmp_path: Path) -> None:
    async def check() -> None:
        stranger = asyncssh.generate_private_key("ssh-ed25519")
        with pytest.raises(asyncssh.PermissionDenied):
            async with host.login(client_keys=[stranger]):
                pass
        known = tmp_path / "known_hosts"
        other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
        known.write_text(f"[127.0.0.1]:{host.found['port']} {other}")
        with pytest.raises(asyncssh.HostKeyNotVerifiable):
            async with host.login(known_hosts=str(known)):
                pass

    run(check())


def test_the_api_is_reached_by_a_forwarded_socket_and_nothing_else_is(host: Served, tmp_path: Path) -> None:
    async def check() -> None:
        async with host.login() as conn:
            path = str(tmp_path / "api")
            await conn.forward_local_path_to_port(path, "127.0.0.1", host.found["api_port"])
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
            with pytest.raises(asyncssh.ChannelOpenError):
                await conn.open_connection("192.0.2.1", 80)
            with pytest.raises(asyncssh.ChannelOpenError):
                await conn.create_process()

    run(check())


def test_many_commands_at_once(host: Served) -> None:
    async def check() -> None:
        async with host.login() as conn:
            done = await asyncio.gather(*(conn.run(f"echo {at}; exit {at}") for at in range(24)))
            assert [(one.stdout, one.exit_status) for one in done] == [(f"{at}\n", at) for at in range(24)]

    run(check())
