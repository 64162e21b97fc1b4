"""The way to a host on real sshd: one contract over both transports, and the traps of host keys, jumps and agents."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ddtune.cli.connect import ask_passphrases
from ddtune.config.model import HostConfig
from ddtune.host import keyring, keys
from ddtune.host.asyncssh_link import AsyncsshConnection
from ddtune.host.connect import connect
from ddtune.host.connection import Connection
from ddtune.host.errors import Unreachable
from ddtune.host.system_ssh import SystemConnection
from ddtune.host.target import Target
from tests.e2e import sshd
from tests.e2e.guest import wait_until
from tests.e2e.sshd import Client, Sshd, fingerprint, keygen, public
from tests.unit.host_server import lines_come_and_go

TRANSPORTS = {"asyncssh": AsyncsshConnection, "system": SystemConnection}
# Not at its default, so that only OpenSSH's own client honours it.
ONLY_SYSTEM = "Ciphers aes128-ctr"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with sshd.client(tmp_path, monkeypatch) as one:
        yield one


@pytest.fixture(params=list(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _options(transport: str) -> tuple[str, ...]:
    return (ONLY_SYSTEM,) if transport == "system" else ()


def _do(alias: str, act: Callable[[Connection], Awaitable[object]], transport: str | None = None) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), connect(Target(alias, name="box")) as conn:
            assert transport is None or isinstance(conn, TRANSPORTS[transport])
            await act(conn)

    asyncio.run(run())


async def _works(conn: Connection) -> None:
    assert (await conn.run(["echo", "in"])).out == b"in\n"


def _refused(alias: str, target: Target | None = None) -> Unreachable:
    async def run() -> Unreachable:
        with pytest.raises(Unreachable) as caught:
            async with asyncio.timeout(60), connect(target or Target(alias, name="box")):
                pass
        return caught.value

    found = asyncio.run(run())
    assert "\n" not in found.message
    return found


def test_contract(client: Client, transport: str) -> None:
    server = client.serve("a")
    client.configure(*client.host("a", server, *_options(transport), "ForwardAgent yes"))

    async def check(conn: Connection) -> None:
        assert (conn.label, conn.user) == ("box", "root")
        assert conn.host_key == f"ssh-ed25519 {fingerprint(server.key)}"
        result = await conn.run(["sh", "-c", "cat; echo no >&2; exit 3", "a b; touch x"], b"\x00\xffin")
        assert (result.rc, result.out, result.err, result.said) == (3, b"\x00\xffin", b"no\n", "no")
        assert (await conn.run(["printf", "%s", "$HOME 'x' %h ~ \\ \n!"])).out == b"$HOME 'x' %h ~ \\ \n!"
        assert (await conn.run(["sh", "-c", "exit 255"])).rc == 255
        cut = await conn.run(["head", "-c", "300000", "/dev/zero"], max_output=1000)
        assert (cut.rc, len(cut.out), cut.truncated) == (0, 1000, True)
        with pytest.raises(Unreachable) as slow:
            await conn.run(["sleep", "20"], timeout=0.3)
        assert slow.value.cause == "command_timeout"
        assert 0 < await conn.rtt() < 5
        assert await conn.rtt() < 5
        # Whatever the configuration says, nothing of the operator's is lent to the host.
        assert (await conn.run(["sh", "-c", "echo $SSH_AUTH_SOCK$DISPLAY"])).out == b"\n"
        await lines_come_and_go(conn)
        many = await asyncio.gather(*(conn.run(["echo", str(number)]) for number in range(8)))
        assert [one.out.decode().strip() for one in many] == [str(number) for number in range(8)]

    _do("a", check, transport)
    assert server.logins() == 1, "one login for all of it"


def test_a_link_that_breaks_is_lost(client: Client, transport: str) -> None:
    server = client.serve("a")
    client.configure(*client.host("a", server, *_options(transport)))

    async def check(conn: Connection) -> None:
        stream = await conn.stream(["cat"])
        lines = aiter(stream)
        await stream.write(b"x\n")
        assert await anext(lines) == b"x"
        server.cut()
        with pytest.raises(Unreachable) as caught:
            await anext(lines)
        assert caught.value.cause == "lost"
        for act in (lambda: conn.run(["true"]), conn.rtt):
            with pytest.raises(Unreachable) as lost:
                await act()
            assert lost.value.cause == "lost"

    _do("a", check, transport)


def test_k6_05_unknown_changed_and_revoked_keys_are_refused(client: Client, transport: str) -> None:
    """StrictHostKeyChecking no and accept-new change nothing."""
    server = client.serve("a", known=False)
    other = keygen(client.folder / "other")
    name = f"[127.0.0.1]:{server.port}"
    for lenient in ("StrictHostKeyChecking no", "StrictHostKeyChecking accept-new"):
        client.configure(*client.host("a", server, *_options(transport), lenient))
        client.known_hosts.write_text("")
        unknown = _refused("a")
        assert unknown.cause == "unknown_host_key"
        assert fingerprint(server.key) in unknown.message
        assert client.known_hosts.read_text() == "", "nothing is learnt silently"
        client.known_hosts.write_text(f"{name} {public(other)}\n")
        assert _refused("a").cause == "changed_host_key"
        client.known_hosts.write_text(f"{server.known}@revoked {name} {public(server.key)}\n")
        assert _refused("a").cause == "changed_host_key"
    assert server.logins() == 0


def test_revoked_by_a_file_of_the_configuration(client: Client) -> None:
    server = client.serve("a")
    revoked = client.folder / "revoked"
    revoked.write_text(f"{public(server.key)}\n")
    client.configure(*client.host("a", server, f"RevokedHostKeys {revoked}"))
    assert _refused("a").cause == "changed_host_key"
    revoked.write_text("")
    _do("a", _works, "system")


def test_the_key_of_localhost_is_checked_as_any_other(client: Client, transport: str) -> None:
    server = client.serve("a", known=False)
    client.configure(*client.host("a", server, *_options(transport), "NoHostAuthenticationForLocalhost yes"))
    assert _refused("a").cause == "unknown_host_key"
    client.configure(
        *client.host("b", client.serve("b"), "ProxyJump a", *_options(transport)),
        *client.host("a", server, "NoHostAuthenticationForLocalhost yes"),
    )
    assert _refused("b").cause == "unknown_host_key"
    assert server.logins() == 0


def test_k6_05_known_hosts_none_is_refused(client: Client) -> None:
    server = client.serve("a")
    client.configure(*client.host("a", server, "UserKnownHostsFile none"))
    found = _refused("a")
    assert found.cause == "no_host_keys"
    assert "box" in found.message
    assert server.logins() == 0


def test_k6_05_hashed_names_and_authorities_are_known(client: Client, transport: str) -> None:
    """On a port that is not 22."""
    server = client.serve("a")
    subprocess.run(["ssh-keygen", "-H", "-f", client.known_hosts], check=True, capture_output=True)
    assert client.known_hosts.read_text().startswith("|1|")
    client.configure(*client.host("a", server, *_options(transport)))
    _do("a", _works, transport)

    authority = keygen(client.folder / "authority")
    other = client.serve("b", f"HostCertificate {client.folder}/b/host_key-cert.pub", known=False)
    sign = ["ssh-keygen", "-q", "-s", authority, "-I", "b", "-h", "-n", "127.0.0.1", f"{other.key}.pub"]
    subprocess.run(sign, check=True)
    other.close()
    other = _again(client, other)
    client.known_hosts.write_text(f"@cert-authority [127.0.0.1]:{other.port} {public(authority)}\n")
    client.configure(*client.host("b", other, *_options(transport)))
    _do("b", _works, transport)


def _named_hops(found: Unreachable) -> set[str]:
    """The jump hosts that a refusal speaks of, but for the list of the way."""
    rest = found.message.replace("on the way over second, first", "")
    return set(re.findall(r"\b(first|second)\b", rest))


def _again(client: Client, server: Sshd) -> Sshd:
    """The same server once more, which reads its configuration anew."""
    folder = client.folder / "b"
    server._process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", folder / "sshd_config", "-E", server.log])
    wait_until("sshd listens", server._listens, 15, 0.02)
    return server


def test_k6_04_jump_hosts_two_deep_each_with_a_jump_of_its_own(client: Client, transport: str) -> None:
    """target → first → second, told only by each one's own block."""
    target, first, second = (client.serve(name) for name in ("target", "first", "second"))
    client.configure(
        *client.host("target", target, "ProxyJump first", *_options(transport)),
        *client.host("first", first, "ProxyJump second"),
        *client.host("second", second),
    )
    _do("target", _works, transport)
    assert [one.logins() for one in (target, first, second)] == [1, 1, 1]
    # And as a list.
    client.configure(
        *client.host("target", target, "ProxyJump second,first", *_options(transport)),
        *client.host("first", first),
        *client.host("second", second),
    )
    _do("target", _works, transport)
    assert [one.logins() for one in (target, first, second)] == [2, 2, 2]


def test_k6_04_the_hop_that_failed_is_named(client: Client, transport: str) -> None:
    """A hop's key is checked as the target's is."""
    target, first, second = (client.serve(name) for name in ("target", "first", "second"))
    blocks = [
        *client.host("target", target, "ProxyJump first", *_options(transport)),
        *client.host("first", first, "ProxyJump second"),
        *client.host("second", second),
    ]
    client.configure(*blocks)
    known = client.known_hosts.read_text()
    client.known_hosts.write_text(known.replace(second.known, ""))
    found = _refused("target")
    assert found.cause == "unknown_host_key"
    assert _named_hops(found) == {"second"}
    client.known_hosts.write_text(known)
    first.close()
    found = _refused("target")
    assert re.search(r"(cannot reach|its jump host) first\b", found.message)
    assert target.logins() == 0


def test_certificates_of_users(client: Client, transport: str) -> None:
    authority = keygen(client.folder / "authority")
    trusted = client.folder / "trusted"
    trusted.write_text(f"{public(authority)}\n")
    server = client.serve("a", f"TrustedUserCAKeys {trusted}", "AuthorizedKeysFile none")
    subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "x", "-n", "root", f"{client.login}.pub"], check=True)
    certificate = f"CertificateFile {client.login}-cert.pub"
    client.configure(*client.host("a", server, certificate, *_options(transport)))
    _do("a", _works, transport)


@pytest.fixture
def agent(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """An agent with eight keys that no host knows, and last the one that counts."""
    path = client.folder / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        wait_until("the agent listens", path.exists, 10, 0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        keys = [keygen(client.folder / f"key{number}") for number in range(8)]
        subprocess.run(["ssh-add", "-q", *keys, client.login], check=True)
        yield client
    finally:
        process.kill()
        process.wait()


def test_an_agent_with_many_keys(agent: Client, transport: str) -> None:
    server = agent.serve("a", "MaxAuthTries 4")
    for end in ("", ".pub"):
        os.rename(f"{agent.login}{end}", f"{agent.folder}/moved{end}")
    agent.configure(*agent.host("a", server, *_options(transport)))
    found = _refused("a")
    assert found.cause == "auth_failed"
    assert "too many" in found.message.lower()
    assert "IdentityFile" in found.message
    # With only the public half here, the agent is asked for exactly that one.
    named = [f"IdentityFile {agent.folder}/moved.pub", "IdentitiesOnly yes"]
    agent.configure(*agent.host("a", server, *named, *_options(transport)))
    _do("a", _works, transport)


def test_an_encrypted_key_is_said_to_be_one(client: Client) -> None:
    server = client.serve("a")
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", client.login], check=True)
    client.configure(*client.host("a", server))
    found = _refused("a")
    assert found.cause == "auth_failed"
    assert "passphrase" in found.message
    assert "ssh-add" in found.message


def test_an_encrypted_key_is_asked_for_before_the_screen_starts(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    hop = client.serve("hop")
    server = client.serve("a")
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", client.login], check=True)
    client.configure(*client.host("a", server, "ProxyJump hop"), *client.host("hop", hop))
    monkeypatch.setattr(keys, "PASSPHRASES", {})
    monkeypatch.setattr(keyring, "PASSPHRASES", keys.PASSPHRASES)
    answers = iter(["wrong", "secret"])
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda text, **_: (asked.append(text), next(answers))[1])
    ask_passphrases(HostConfig("box", "a"))
    assert len(asked) == 2
    assert str(client.login) in asked[0]
    assert "secret" not in asked[0]
    _do("a", _works, "asyncssh")
    ask_passphrases(HostConfig("box", "a"))
    assert len(asked) == 2, "asked once for the whole way"


def test_a_key_that_an_agent_holds_is_not_asked_for(agent: Client) -> None:
    server = agent.serve("a")
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", agent.login], check=True)
    agent.configure(*agent.host("a", server))
    assert asyncio.run(keyring.locked_keys(Target("a"))) == []


def test_ipv6(client: Client, transport: str) -> None:
    server = client.serve("six", address="::1")
    client.configure(*client.host("six", server, *_options(transport)))
    _do("six", _works, transport)
    client.configure(*(["Host *", f"  {ONLY_SYSTEM}"] if transport == "system" else []))
    target = Target.parse(f"root@[::1]:{server.port}", name="box")

    async def run() -> None:
        async with connect(target) as conn:
            assert isinstance(conn, TRANSPORTS[transport])
            await _works(conn)

    asyncio.run(run())


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=touch x", "-F/dev/null", "root@-G", "a b", "a;id", "$(id)", "a\nb", ""]
)
def test_names_that_would_be_options_or_shell(client: Client, name: str) -> None:
    with pytest.raises(Unreachable) as caught:
        Target.parse(name)
    assert caught.value.cause == "bad_name"


def test_k6_01_stanzas_that_have_nothing_to_do_with_the_host(client: Client, transport: str) -> None:
    server = client.serve("a")
    (client.folder / "conf.d").mkdir()
    work = client.folder / "conf.d/work.conf"
    work.write_text(
        f'Match host elsewhere exec "touch {client.folder}/ran"\n  ProxyJump bastion\n'
        'Match exec "test %h = gpu1"\n  ProxyJump bastion\n'
        "Match tagged office\n  ProxyJump bastion\n"
    )
    client.configure(
        f"Include {client.folder}/conf.d/*",
        *client.host("a", server, "ConnectTimeout 30", "ServerAliveInterval 60", *_options(transport)),
        "Match final all",
        "  Compression no",
    )
    if "tagged" in _ssh_complains(client):
        work.write_text(work.read_text().partition("Match tagged")[0])
    _do("a", _works, transport)


def _ssh_complains(client: Client) -> str:
    """What this machine's OpenSSH itself cannot read, such as a keyword of a newer one."""
    done = subprocess.run(["ssh", "-G", "a"], capture_output=True, text=True, check=False)
    return done.stderr


def test_k6_01_what_ssh_itself_cannot_read_is_named(client: Client) -> None:
    server = client.serve("a")
    client.configure(*client.host("a", server), "Host *", "  NoSuchOption yes")
    line = client.config.read_text().splitlines().index("  NoSuchOption yes") + 1
    found = _refused("a")
    assert found.cause == "bad_name"
    assert f"{client.config}" in found.message
    assert re.search(rf"line {line}: .*nosuchoption", found.message, re.IGNORECASE)


def test_k6_14_match_exec_runs_only_for_the_host_that_it_is_of(client: Client) -> None:
    server = client.serve("a")
    ran = client.folder / "ran"
    client.configure(
        f'Match host elsewhere exec "touch {ran}.elsewhere"',
        "  Port 1",
        f'Match originalhost a exec "touch {ran}.a"',
        f"  Port {server.port}",
        *client.host("a", server),
    )
    _do("a", _works)
    assert Path(f"{ran}.a").exists()
    assert not Path(f"{ran}.elsewhere").exists()
    with contextlib.suppress(Unreachable):
        Target.parse("elsewhere")
    assert not Path(f"{ran}.elsewhere").exists(), "a name that is only read runs nothing"


def test_no_agent_is_lent_to_the_host(agent: Client, transport: str) -> None:
    server = agent.serve("a")
    agent.configure(*agent.host("a", server, "ForwardAgent yes", "IdentitiesOnly yes", *_options(transport)))
    asks = 'echo "[$SSH_AUTH_SOCK]"'
    plain = subprocess.run(["ssh", "a", asks], capture_output=True, text=True, check=True)
    assert plain.stdout != "[]\n", "as it is configured, ssh itself would lend it"

    async def check(conn: Connection) -> None:
        assert (await conn.run(["sh", "-c", asks])).out == b"[]\n"

    _do("a", check, transport)


def test_alias_of_the_key_global_file_and_proxy_command_are_honoured(client: Client, transport: str) -> None:
    server = client.serve("a", known=False)
    everybody = client.folder / "everybody"
    hop = client.serve("through")
    options = [
        "HostName 192.0.2.1",
        f"Port {server.port}",
        "HostKeyAlias cluster",
        f"GlobalKnownHostsFile {everybody}",
        "ProxyCommand ssh -W [127.0.0.1]:%p through",
        *_options(transport),
    ]
    client.configure("Host a", *(f"  {line}" for line in options), *client.host("through", hop))
    everybody.write_text(f"other {public(server.key)}\n")
    assert _refused("a").cause == "unknown_host_key"
    everybody.write_text(f"cluster {public(server.key)}\n")
    _do("a", _works, transport)


def test_the_agent_that_is_named_is_asked(agent: Client, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = agent.serve("a", "MaxAuthTries 20")
    for end in ("", ".pub"):
        os.rename(f"{agent.login}{end}", f"{agent.folder}/moved{end}")
    monkeypatch.delenv("SSH_AUTH_SOCK")
    agent.configure(*agent.host("a", server, *_options(transport)))
    assert _refused("a").cause == "auth_failed"
    agent.configure(*agent.host("a", server, f"IdentityAgent {agent.folder}/agent", *_options(transport)))
    _do("a", _works, transport)
