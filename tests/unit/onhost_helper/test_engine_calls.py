"""Draining and sending requests: what reaches the engine, with which key, and what anybody else sees."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.unit.onhost_helper.host import UNIT, Host

OP = "20261129185959-abc"


def engine(host: Host, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{host.port}{path}", data, timeout=5) as answer:
        return json.load(answer)


def armed(host: Host, *flags: str, **fields: Any) -> None:
    host.adopted(*flags)
    assert host.arm(host.put("--speculative-ddtree-budget", "16"), **fields)["ok"]


def test_an_idle_service_is_drained_at_once(host: Host) -> None:
    armed(host)
    answer = host.ok("drain", op=OP, drain_s=30)
    assert (answer["cut"], answer["hook"]) == (0, False)
    assert answer["waited_s"] < 1
    assert host.ok("state")["txn"]["times"]["drained"]


def test_what_does_not_end_in_time_is_cut_and_counted(host: Host) -> None:
    armed(host, "--api-key", "sk-1", "--admin-api-key", "sk-2")
    engine(host, "/running", 3)
    answer = host.ok("drain", op=OP, drain_s=1)
    assert answer["cut"] == 3
    assert 1 <= answer["waited_s"] < 3
    seen = engine(host, "/seen")
    assert seen["abort"] == {"abort_all": True}
    assert seen["abort_key"] == "Bearer sk-2"
    assert set(seen["authorization"][:-1]) == {"Bearer sk-1"}


def test_a_service_whose_requests_cannot_be_counted_is_unknown_not_zero(host: Host) -> None:
    armed(host)
    engine(host, "/running", "many")
    assert host.ok("drain", op=OP, drain_s=0.5)["cut"] is None


def test_the_hosts_own_hook_runs_first(host: Host) -> None:
    armed(host)
    hook = host.file("etc/ddtune", UNIT, "drain")
    hook.parent.mkdir(parents=True)
    hook.write_text(f'#!/bin/sh\necho "$@" > {host.root}/hooked\nexec $(cat {host.root}/then)\n')
    hook.chmod(0o755)
    (host.root / "then").write_text("true")
    assert host.ok("drain", op=OP, drain_s=1)["hook"] is True
    assert (host.root / "hooked").read_text() == f"{UNIT}\n"
    (host.root / "then").write_text("false")
    assert "ended with status 1" in host.refused("drain", op=OP, drain_s=1)[1]
    assert host.ok("state")["txn"]["state"] == "ARMED"


def test_the_key_of_a_file_reaches_the_engine_and_no_answer(host: Host) -> None:
    secret = host.root / "key"
    secret.write_text("sk-9\n")
    host.adopted(api_key_file=str(secret))
    order = {"api_port": host.port, "api_key_file": str(secret), "concurrency": 1, "timeout_s": 5, "deadline_s": 5}
    request = {"id": "a", "path": "/generate", "body": {"text": "hello"}, "timeout_s": 5}
    answer = host.ok("load", requests=[request], **order)
    assert [one["id"] for one in answer["answers"]] == ["a"]
    assert "sk-9" not in json.dumps(answer)
    assert "sk-9" not in (host.root / "systemd/calls").read_text()
    assert engine(host, "/seen")["post_authorization"] == ["Bearer sk-9"]


def test_port_and_key_file_are_those_of_the_adoption(host: Host) -> None:
    """Whoever may call the helper can have root neither read another file nor send a key elsewhere."""
    secret, other = host.root / "key", host.root / "other"
    secret.write_text("sk-9\n")
    other.write_text("not-yours\n")
    host.adopted(api_key_file=str(secret))
    order = {"api_port": 1, "api_key_file": str(other), "concurrency": 1, "timeout_s": 5, "deadline_s": 5}
    request = {"id": "a", "path": "/generate", "body": {"text": "hello"}, "timeout_s": 5}
    host.ok("load", requests=[request], **order)
    assert engine(host, "/seen")["post_authorization"] == ["Bearer sk-9"]
    txn = host.arm(str(host.ok("state")["stable"]["release"]), kind="restart", **order_of(order))["txn"]
    assert (txn["api_port"], txn["api_key_file"]) == (host.port, str(secret))


def order_of(order: dict[str, Any]) -> dict[str, Any]:
    return {name: order[name] for name in ("api_port", "api_key_file")}


def test_before_the_adoption_only_the_engines_own_port_is_used(host: Host) -> None:
    host.install()
    host.write_unit()
    host.start()
    order = {"concurrency": 1, "timeout_s": 5, "deadline_s": 5, "requests": []}
    assert f"listens on port {host.port}, not on 1" in host.refused("load", api_port=1, **order)[1]
    host.ok("load", **order)
