from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from ddtune.host.errors import Unreachable
from ddtune.host.resolve import resolve, route_of
from ddtune.host.system_ssh import _base, _over, why
from ddtune.host.target import Target


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("b300", ("b300", None, None)),
        ("ops@10.0.0.7:2222", ("10.0.0.7", 2222, "ops")),
        ("[fe80::1%eth0]:22", ("fe80::1%eth0", 22, None)),
        ("::1", ("::1", None, None)),
    ],
)
def test_what_the_operator_writes_is_split(text: str, parts: tuple[object, ...]) -> None:
    target = Target.parse(text)
    assert (target.host, target.port, target.user) == parts


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "a b", "$(x)", "-x@h", "u;v@h", "h:99999", "", "h:22;x"])
def test_what_could_be_an_option_or_shell_is_refused(text: str) -> None:
    with pytest.raises(Unreachable) as caught:
        Target.parse(text)
    assert caught.value.cause == "bad_name"


def _ssh_g(**changed: str) -> str:
    options = {
        "hostname": "10.0.0.7",
        "user": "ops",
        "port": "2222",
        "identityfile": "~/.ssh/id_%h",
        "userknownhostsfile": "/k/one /k/%r",
        "globalknownhostsfile": "/etc/k",
        "identitiesonly": "yes",
        "connecttimeout": "none",
        "proxyjump": "none",
    }
    return "\n".join(f"{key} {value}" for key, value in (options | changed).items())


def test_the_answer_of_ssh_becomes_explicit_values() -> None:
    route = route_of(Target("b300", name="b300"), _ssh_g(connecttimeout="7", proxyjump="a@j1:23,j2"))
    assert (route.host, route.user, route.port, route.connect_timeout_s) == ("10.0.0.7", "ops", 2222, 7)
    assert route.identities == (Path.home() / ".ssh/id_10.0.0.7",)
    assert route.known_hosts == (Path("/k/one"), Path("/k/ops"), Path("/etc/k"))
    assert route.jumps == ("a@j1:23", "j2")
    assert route.identities_only


def test_a_host_without_known_hosts_is_refused() -> None:
    with pytest.raises(Unreachable) as caught:
        route_of(Target("b300"), _ssh_g(userknownhostsfile="none"))
    assert caught.value.cause == "no_host_keys"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("revokedhostkeys", "/etc/ssh/revoked"),
        ("knownhostscommand", "/bin/k %H"),
        ("ciphers", "aes128-ctr"),
        ("addressfamily", "inet6"),
        ("hostkeyalgorithms", "ssh-ed25519"),
        ("verifyhostkeydns", "true"),
        ("checkhostip", "yes"),
        ("pkcs11provider", "/usr/lib/opensc.so"),
        ("anoptionofnextyears", "yes"),
    ],
)
def test_what_asyncssh_would_not_honour_goes_over_the_systems_ssh(option: str, value: str) -> None:
    defaults = _ssh_g(
        ciphers="chacha20,aes128-ctr",
        addressfamily="any",
        hostkeyalgorithms="all",
        verifyhostkeydns="no",
        checkhostip="no",
    )
    assert route_of(Target("b300"), _ssh_g(**{option: value}), defaults).system == (option,)
    assert route_of(Target("b300"), defaults, defaults).system == ()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("forwardagent", "yes"),
        ("stricthostkeychecking", "false"),
        ("controlmaster", "auto"),
        ("serveraliveinterval", "60"),
        ("sendenv", "LANG"),
        ("localforward", "8000 localhost:80"),
        ("revokedhostkeys", "none"),
        ("knownhostscommand", "none"),
    ],
)
def test_what_changes_neither_trust_nor_way_does_not(option: str, value: str) -> None:
    assert route_of(Target("b300"), _ssh_g(**{option: value}), _ssh_g()).system == ()


@pytest.mark.skipif(not Path("/usr/bin/ssh").exists(), reason="no OpenSSH client here")
def test_the_real_ssh_is_asked() -> None:
    route = asyncio.run(resolve(Target("some-alias", 2200, "ops")))
    assert (route.host, route.port, route.user) == ("some-alias", 2200, "ops")
    assert route.known_hosts


def test_the_name_that_keys_are_kept_under_is_the_alias_of_the_key() -> None:
    """%k, as OpenSSH has it."""
    text = _ssh_g(userknownhostsfile="/k/%k")
    assert route_of(Target("b300"), text).known_hosts[0] == Path("/k/b300")
    assert route_of(Target("b300"), f"{text}\nhostkeyalias cluster").known_hosts[0] == Path("/k/cluster")


def test_what_the_system_ssh_is_told_stands_before_any_configuration() -> None:
    route = route_of(Target("b300"), _ssh_g(nohostauthenticationforlocalhost="yes"), _ssh_g())
    assert {"StrictHostKeyChecking=yes", "NoHostAuthenticationForLocalhost=no"} <= set(_base(route))


def test_the_zone_of_a_hop_is_no_token_of_ssh() -> None:
    zoned, plain = (route_of(Target(name), _ssh_g(hostname=name)) for name in ("fe80::1%eth0", "b"))
    assert "-- fe80::1%%eth0" in _over("ssh", [zoned])
    assert "-- fe80::1%%%%eth0" in _over("ssh", [zoned, plain]), "each ssh on the way expands it once"


def test_an_agent_is_named_by_a_variable_or_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "/run/mine")
    for written, found in (("$MINE", "/run/mine"), ("${MINE}", "/run/mine"), ("${MINE}/agent", "/run/mine/agent")):
        assert route_of(Target("b300"), _ssh_g(identityagent=written)).agent == found


@pytest.mark.parametrize(("passed", "named"), [(0, "second"), (1, "first"), (2, None)])
def test_the_hop_that_failed_is_named(passed: int, named: str | None) -> None:
    routes = {name: route_of(Target(name, name=name), _ssh_g(hostname=name)) for name in ("first", "second", "box")}
    asked = [f"debug1: channel_connect_stdio_fwd: {name}:2222" for name in ("first", "box")][:passed]
    said = "\n".join([*asked, "Host key verification failed."])
    found = why(routes["box"], (routes["second"], routes["first"]), said)
    assert found.cause == "unknown_host_key"
    assert re.findall(r"its jump host (\w+)", found.message) == ([named] if named else [])
