"""Odd names, certificates and ways, on real sshd: what OpenSSH would not trust is refused, and what failed is named."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddtune.host.connect import connect
from ddtune.host.errors import Unreachable
from ddtune.host.target import Target
from tests.e2e import sshd
from tests.e2e.sshd import Client, keygen, public

VIA = {"asyncssh": (), "system": ("Ciphers aes128-ctr",)}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with sshd.client(tmp_path, monkeypatch) as one:
        yield one


@pytest.fixture(params=list(VIA))
def via(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Options that lead over the one transport or the other."""
    return VIA[str(request.param)]


def _login(alias: str) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), connect(Target(alias, name="box")) as conn:
            assert (await conn.run(["true"])).rc == 0

    asyncio.run(run())


def _refused(alias: str) -> Unreachable:
    with pytest.raises(Unreachable) as caught:
        _login(alias)
    assert "\n" not in caught.value.message
    return caught.value


def _trusted_by_openssh(alias: str) -> bool:
    strict = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    return subprocess.run(["ssh", *strict, alias, "true"], capture_output=True, check=False).returncode == 0


def test_a_key_that_is_known_for_the_address_is_not_known_for_the_name(client: Client, via: tuple[str, ...]) -> None:
    """Else whoever answers for the name could show the key of any other machine that is known by its address."""
    server = client.serve("a")
    client.configure("Host a", "  HostName localhost", "  AddressFamily inet", f"  Port {server.port}", *via)
    if not via:
        client.configure("Host a", "  HostName LocalHost", f"  Port {server.port}")
    assert not _trusted_by_openssh("a")
    assert _refused("a").cause == "unknown_host_key"
    # As OpenSSH itself writes a name down, whatever its case.
    client.known_hosts.write_text(server.known.replace("127.0.0.1", "localhost"))
    assert _trusted_by_openssh("a")
    _login("a")
    client.known_hosts.write_text(f"@revoked [LOCALHOST]:{server.port} {public(server.key)}\n{server.known}")
    assert _refused("a").cause == "changed_host_key"


def test_a_key_that_is_revoked_on_its_port_is_not_known_without(client: Client, via: tuple[str, ...]) -> None:
    server = client.serve("a", known=False)
    client.configure(*client.host("a", server, *via))
    known = f"127.0.0.1 {public(server.key)}\n"
    client.known_hosts.write_text(known)
    assert _trusted_by_openssh("a")
    _login("a")
    for name in (f"[127.0.0.1]:{server.port}", f"[127.0.0.?]:{server.port}", "*"):
        client.known_hosts.write_text(f"{known}@revoked {name} {public(server.key)}\n")
        assert not _trusted_by_openssh("a")
        found = _refused("a")
        assert found.cause == "changed_host_key"
        assert "revoked" in found.message


@pytest.mark.parametrize(
    ("signed", "said"),
    [
        (("-h", "-n", "other"), "principal"),
        (("-h", "-n", "127.0.0.1", "-V", "20200101:20210101"), "expired"),
        (("-h", "-n", "127.0.0.1", "-V", "20400101:20410101"), "not yet valid"),
        (("-n", "127.0.0.1"), "certificate"),
        (("-h", "-n", "127.0.0.1", "revoked"), "revoked"),
    ],
)
def test_a_certificate_that_is_not_valid_is_refused_and_said_to_be(
    client: Client, via: tuple[str, ...], signed: tuple[str, ...], said: str
) -> None:
    authority, key = keygen(client.folder / "authority"), keygen(client.folder / "key")
    options = [word for word in signed if word != "revoked"]
    subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "x", *options, f"{key}.pub"], check=True)
    server = client.serve("a", f"HostKey {key}", f"HostCertificate {key}-cert.pub", known=False)
    known = f"@cert-authority [127.0.0.1]:{server.port} {public(authority)}\n"
    client.known_hosts.write_text(known + (f"@revoked * {public(authority)}\n" if "revoked" in signed else ""))
    client.configure(*client.host("a", server, *via))
    assert not _trusted_by_openssh("a")
    found = _refused("a")
    assert found.cause == ("changed_host_key" if "revoked" in signed else "unknown_host_key")
    assert said in found.message


def test_k6_04_each_hop_is_named_in_each_way_to_fail(client: Client, via: tuple[str, ...]) -> None:
    """target → first → second: the one that failed, how, and what was on the way to what."""
    servers = {name: client.serve(name) for name in ("target", "first", "second")}
    known = client.known_hosts.read_text()
    stranger = keygen(client.folder / "stranger")
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ways = {
            "refused": (f"Port {closed.getsockname()[1]}",),
            "name_not_found": ("HostName no-such.invalid",),
            "auth_failed": ("User nobody-at-all",),
            "timeout": (f"Port {silent.getsockname()[1]}", "ConnectTimeout 1"),
            "changed_host_key": (),
            "unknown_host_key": (),
        }
        for cause, options in ways.items():
            for hop in ("second", "first"):
                client.known_hosts.write_text(known)
                mine = public(servers[hop].key)
                if cause == "changed_host_key":
                    client.known_hosts.write_text(known.replace(mine, public(stranger)))
                if cause == "unknown_host_key":
                    client.known_hosts.write_text(known.replace(servers[hop].known, ""))
                bad = [f"  {line}" for line in options]
                blocks = [[f"Host {hop}", *bad]] if options else []
                blocks += [
                    client.host("target", servers["target"], "ProxyJump first", *via),
                    client.host("first", servers["first"], "ProxyJump second"),
                    client.host("second", servers["second"]),
                ]
                client.configure(*[line for block in blocks for line in block])
                found = _refused("target")
                # A name or port that only the hop before it can try is that hop's to tell.
                expected = {cause, "no_route"} if hop == "first" and cause in ("refused", "name_not_found") else {cause}
                assert found.cause in expected, (hop, found.message)
                assert found.message.startswith("box cannot be reached, on the way over second, first: ")
                assert hop in found.message.replace("on the way over second, first", "")
    assert servers["target"].logins() == 0


# What nc would do, and talks on its standard error before and while it does.
CHATTY = """\
import os, socket, sys, threading
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
os.write(2, b"warning: odd\\n" * 3)
def out():
    while data := os.read(0, 65536):
        link.sendall(data)
threading.Thread(target=out, daemon=True).start()
while data := link.recv(65536):
    os.write(1, data)
    os.write(2, b"still here\\n")
"""


def test_what_a_proxy_command_says_is_none_of_the_hosts_words(client: Client, via: tuple[str, ...]) -> None:
    """asyncssh would read it as a part of the protocol, and lose the link to it."""
    server = client.serve("a")
    program = client.folder / "a chatty one.py"
    program.write_text(CHATTY)
    command = f"ProxyCommand {sys.executable} '{program}' %h %p"
    client.configure(*client.host("a", server, command, *via))
    assert _trusted_by_openssh("a")
    _login("a")


@pytest.mark.parametrize("command", ["sh -c 'echo \"no way for %n\" >&2; exit 3'", "/no/such/program %h"])
def test_a_proxy_command_that_fails_is_named_with_its_words(client: Client, via: tuple[str, ...], command: str) -> None:
    server = client.serve("a")
    client.configure(*client.host("a", server, f"ProxyCommand {command}", *via))
    found = _refused("a")
    assert found.cause == "lost"
    assert "ProxyCommand" in found.message
    assert re.search(r"no way for a|no/such/program: (not found|No such file)", found.message)


def test_a_path_of_known_hosts_with_a_space_is_read_by_ssh_itself(client: Client) -> None:
    server = client.serve("a", known=False)
    (client.folder / "my known hosts").write_text(server.known)
    client.configure(*client.host("a", server, f'UserKnownHostsFile "{client.folder}/my known hosts"'))
    assert _trusted_by_openssh("a")
    _login("a")
