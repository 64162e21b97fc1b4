from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncssh
import pytest

from ddtune.host.connect import connect
from ddtune.host.errors import Unreachable
from ddtune.host.target import Target
from tests.unit.host_server import Server, lines_come_and_go, serve


async def _refusal(target: Target) -> Unreachable:
    with pytest.raises(Unreachable) as caught:
        async with connect(target):
            pass
    assert "\n" not in caught.value.message
    assert target.label in caught.value.message
    return caught.value


def test_runs_a_command_with_its_input_and_status(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server, connect(server.target()) as conn:
            result = await conn.run(["sh", "-c", "cat; echo no >&2; exit 3", "a b; touch x"], b"\x00\xffin")
            assert (result.rc, result.out, result.err, result.said) == (3, b"\x00\xffin", b"no\n", "no")
            assert (await conn.run(["printf", "%s", "$HOME 'x'"])).out == b"$HOME 'x'"
            assert conn.user == "ops"
            assert 0 < await conn.rtt() < 5

    asyncio.run(check())


def test_output_past_the_limit_is_left_out_and_said(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server, connect(server.target()) as conn:
            result = await conn.run(["head", "-c", "300000", "/dev/zero"], max_output=1000)
            assert (result.rc, len(result.out), result.truncated) == (0, 1000, True)

    asyncio.run(check())


def test_a_command_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server, connect(server.target()) as conn:
            with pytest.raises(Unreachable) as caught:
                await conn.run(["cat", "/dev/fd/0"], timeout=0.0)
            assert caught.value.cause == "command_timeout"

    asyncio.run(check())


def test_stream_gives_lines_and_takes_input(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server, connect(server.target()) as conn:
            await lines_come_and_go(conn)

    asyncio.run(check())


def test_unknown_host_key_is_refused_with_its_fingerprint(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server:
            refusal = await _refusal(server.target(known_hosts=tmp_path / "none"))
            assert refusal.cause == "unknown_host_key"
            assert _fingerprint(server) in refusal.message

    asyncio.run(check())


def test_changed_host_key_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server:
            shown = _fingerprint(server)
            for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256"):
                other = asyncssh.generate_private_key(kind).export_public_key().decode()
                server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {other}")
                refusal = await _refusal(server.target())
                assert refusal.cause == "changed_host_key"
                assert shown in refusal.message or kind != "ssh-ed25519"

    asyncio.run(check())


def test_a_broken_line_in_known_hosts_hides_no_other(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server:
            server.known_hosts.write_text("@odd x y\n|1|zz\n" + server.known_hosts.read_text())
            async with connect(server.target()) as conn:
                assert (await conn.run(["true"])).rc == 0

    asyncio.run(check())


def test_failed_login_names_the_keys_tried(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server:
            other = tmp_path / "other"
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(other))
            refusal = await _refusal(server.target(identity=other))
            assert refusal.cause == "auth_failed"
            assert str(other) in refusal.message
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(other), "pkcs8-pem", passphrase="x")
            assert "passphrase" in (await _refusal(server.target(identity=other))).message

    asyncio.run(check())


def test_refused_silent_and_unknown_names(tmp_path: Path) -> None:
    async def check() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            refusal = await _refusal(
                Target("127.0.0.1", closed.getsockname()[1], known_hosts=tmp_path / "k", name="box")
            )
            assert refusal.cause == "refused"
        silent = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        target = Target("127.0.0.1", port, known_hosts=tmp_path / "k", name="box", connect_timeout_s=0.2)
        refusal = await _refusal(target)
        assert (refusal.cause, "said nothing" in refusal.message) == ("timeout", True)
        silent.close()
        refusal = await _refusal(Target("no-such-name.invalid", known_hosts=tmp_path / "k", name="box"))
        assert refusal.cause == "name_not_found"

    asyncio.run(check())


def test_a_link_that_breaks_ends_the_stream_as_lost(tmp_path: Path) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server, _cuttable(server) as (port, cut), contextlib.AsyncExitStack() as stack:
            server.known_hosts.write_text(server.known_hosts.read_text().replace(str(server.port), str(port)))
            conn = await stack.enter_async_context(connect(server.target(port=port)))
            stream = await conn.stream(["cat"])
            lines = aiter(stream)
            await stream.write(b"x\n")
            assert await anext(lines) == b"x"
            cut()
            with pytest.raises(Unreachable) as caught:
                await anext(lines)
            assert caught.value.cause == "lost"
            with pytest.raises(Unreachable):
                await conn.run(["true"])
            with pytest.raises(Unreachable):
                await conn.rtt()

    asyncio.run(check())


@pytest.mark.skipif(not Path("/usr/bin/ssh-agent").exists(), reason="no ssh-agent here")
def test_a_key_in_the_agent_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with serve(tmp_path) as server:
            agent = await asyncio.create_subprocess_exec(
                "ssh-agent", "-D", "-a", str(tmp_path / "agent"), stdout=asyncio.subprocess.PIPE
            )
            try:
                monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
                assert agent.stdout
                await agent.stdout.readline()  # It says where it listens once it does.
                add = await asyncio.create_subprocess_exec("ssh-add", "-q", str(server.identity))
                assert await add.wait() == 0
                os.unlink(server.identity)
                async with connect(server.target(identity=None)) as conn:
                    assert (await conn.run(["true"])).rc == 0
            finally:
                agent.terminate()
                await agent.wait()

    asyncio.run(check())


def _fingerprint(server: Server) -> str:
    return asyncssh.import_public_key(server.known_hosts.read_text().split(" ", 1)[1]).get_fingerprint()


@contextlib.asynccontextmanager
async def _cuttable(server: Server) -> AsyncIterator[tuple[int, Callable[[], object]]]:
    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
        writers.extend((writer, inner_writer))
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    relay = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield relay.sockets[0].getsockname()[1], lambda: [writer.transport.abort() for writer in writers]
    finally:
        relay.close()
