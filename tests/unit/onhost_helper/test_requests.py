"""Whatever is sent to the helper, it answers with one JSON object and does nothing that was not asked for."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

import pytest

from ddtune.onhost import helper, schema
from tests.unit.onhost_helper.host import UNIT, Host

SHA = "0" * 64
OP = "20261129185959-abc"
ANSWERS_FOR_ANY = {"canary", "hello", "adopt", "can_adopt", "unadopt", "state", "inspect", "probe_build", "load", "who"}


def hostile() -> dict[str, bytes]:
    """Requests that no ddtune sends."""
    good = {"proto": 1, "verb": "state", "unit": UNIT}
    return {
        "nothing": b"",
        "not JSON": b"hello",
        "not UTF-8": b'{"proto":1,"verb":"\xff"}',
        "a list": b"[]",
        "a number": b"7",
        "deep lists": b'{"proto":1,"verb":' + b"[" * 200_000,
        "deep but closed": b'{"proto":1,"verb":"state","unit":' + b"[" * 60 + b"]" * 60 + b"}",
        "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "a long number": b'{"proto":1,"limit":' + b"9" * 3_000_000 + b"}",
        "not a number": b'{"proto":1,"verb":"drain","unit":"a.service","op":"20261129-a","drain_s":NaN}',
        "infinity": b'{"proto":1,"verb":"drain","unit":"a.service","op":"20261129-a","drain_s":1e999}',
        "no verb": b'{"proto":1}',
        "a verb that is a list": json.dumps({**good, "verb": ["state"]}).encode(),
        "a verb that is a module": json.dumps({**good, "verb": "__import__"}).encode(),
        "an unknown field": json.dumps({**good, "extra": 1}).encode(),
        "a limit of true": json.dumps({**good, "limit": True}).encode(),
        "no unit": json.dumps({"proto": 1, "verb": "state"}).encode(),
        "a unit that is an object": json.dumps({**good, "unit": {"a": 1}}).encode(),
        "a lone surrogate": b'{"proto":1,"verb":"record","unit":"a.service","entry":{"a":"\\ud800"}}',
    }


class Inside(Host):
    """A host whose helper answers in this process: the same code, without a process for each request."""

    def raw(self, data: bytes) -> tuple[dict[str, Any], subprocess.CompletedProcess[bytes]]:
        answer = json.loads(json.dumps({"proto": 1, **helper.answer(data)}))
        return answer, subprocess.CompletedProcess([], 0, b"", b"")


@pytest.fixture
def installed(shared: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    lib = shared.root / "usr/local/lib/ddtune/1/ddtune-onhost.pyz"
    monkeypatch.setattr(sys, "argv", [str(lib), "helper"])
    return shared


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Host:
    host = Inside(tmp_path_factory.mktemp("requests") / "root")
    host.install()
    return host


def tree(host: Host) -> set[str]:
    return {str(path) for path in host.root.rglob("*") if "systemd/calls" not in str(path)}


def test_bad_requests_are_answered_in_one_sentence(shared: Host) -> None:
    before = tree(shared)
    for name, data in hostile().items():
        answer, done = Host.raw(shared, data)
        assert (answer["proto"], answer["ok"], answer["cause"]) in {(1, False, "unknown"), (1, False, "read_only")}, (
            name
        )
        assert 0 < len(answer["message"]) < 400, name
        assert "\n" not in answer["message"], name
        assert (done.returncode, done.stderr) == (0, b""), name
    assert tree(shared) == before


@pytest.mark.parametrize(
    "unit",
    [
        "../../etc/shadow.service",
        "a/b.service",
        ".service",
        "a.service\n",
        "a\0.service",
        "a.service --force",
        "--help.service ",
        "a.timer",
        "ä.service",
        "a%h.service",
        "a" * 300 + ".service",
        "",
        None,
        7,
    ],
)
def test_names_that_are_no_units_are_refused(installed: Host, unit: Any) -> None:
    before = tree(installed)
    answer, _ = installed.raw(json.dumps({"proto": 1, "verb": "swap", "unit": unit, "op": OP}).encode())
    assert (answer["ok"], answer["cause"]) == (False, "unknown")
    assert "'unit'" in answer["message"]
    assert tree(installed) == before


@pytest.mark.parametrize("op", ["", "abc", "123-a", "2026-../../x", "2026-A", "2026-a\n", "2026-" + "a" * 41, None, 5])
def test_names_that_are_no_operations_are_refused(installed: Host, op: Any) -> None:
    cause, message = installed.refused("swap", op=op)
    assert cause == "unknown"
    assert "'op'" in message


@pytest.mark.parametrize("sha", ["", "..", "../" * 21 + "x", "0" * 63, "0" * 65, "A" * 64, "0" * 63 + "\n", None])
def test_names_that_are_no_releases_are_refused(installed: Host, sha: Any) -> None:
    cause, message = installed.refused("release", sha=sha)
    assert cause == "unknown"
    assert "'sha'" in message


def test_a_request_of_100_mb_is_refused_without_reading_it(installed: Host) -> None:
    helper_path = installed.root / "usr/local/libexec/ddtune-host"
    process = subprocess.Popen([helper_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    written = 0
    part = b"[" * 1_000_000
    try:
        while written < 100_000_000:
            written += process.stdin.write(part)
    except BrokenPipeError:
        pass
    out, err = process.communicate(timeout=30)
    assert written < 20_000_000
    assert json.loads(out)["message"] == f"the request has more than {helper.MAX_REQUEST} bytes"
    assert err == b""


def test_another_protocol_is_read_only(installed: Host) -> None:
    answer, _ = installed.raw(b'{"proto":2,"verb":"hello"}')
    assert (answer["ok"], answer["cause"]) == (False, "read_only")


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("state", {"limit": "20"}),
        ("inspect", {"env": ["A=B"]}),
        ("inspect", {"env": "PATH"}),
        ("put_release", {"release": {"argv": "x", "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}}),
        ("put_release", {"release": {"argv": ["a\0b"], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}}),
        ("put_release", {"release": {"argv": ["a"], "cwd": "/../x", "env_set": {}, "env_unset": [], "schema": 1}}),
        ("put_release", {"release": {"argv": ["a"], "cwd": "/", "env_set": {"A=": "1"}, "env_unset": [], "schema": 1}}),
        ("put_release", {"release": {"argv": ["a"], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1, "x": 1}}),
        ("drain", {"op": OP, "drain_s": -1}),
        ("drain", {"op": OP, "drain_s": "30"}),
        ("confirm", {"op": OP, "invocation": "a b"}),
        ("fail", {"op": OP, "cause": "x", "evidence": [{"text": 7}]}),
        ("settle", {"op": OP, "ok": "yes"}),
        ("load", {"requests": [1], "concurrency": 1, "timeout_s": 1, "deadline_s": 1}),
        ("record", {"entry": ["a"]}),
        ("adopt", {"invocation": "a/b"}),
    ],
)
def test_fields_of_a_wrong_kind_are_named(installed: Host, verb: str, fields: dict[str, Any]) -> None:
    cause, message = installed.refused(verb, **fields)
    assert cause == "unknown"
    assert any(f"'{name}'" in message for name in fields)


def test_a_pattern_that_does_not_compile_is_refused(installed: Host) -> None:
    answer = installed.arm(SHA, fatal_patterns=[{"cause": "x", "regex": "("}])
    assert "'fatal_patterns'" in answer["message"]


@pytest.mark.parametrize("verb", sorted(set(helper.VERBS) - ANSWERS_FOR_ANY))
def test_verbs_need_an_adopted_service(installed: Host, verb: str) -> None:
    order: dict[str, Any] = {
        "release": {"sha": SHA},
        "put_release": {"release": {"argv": ["a"], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}},
        "record": {"entry": {}},
        "drain": {"op": OP, "drain_s": 1},
        "confirm": {"op": OP, "invocation": "a"},
        "fail": {"op": OP, "cause": "hang"},
        "settle": {"op": OP, "ok": True},
        "base": {},
        "can_hold": {},
        "accept": {},
        "golden": {"key": {"build": "x"}},
        "put_golden": {"key": {"build": "x"}, "golden": {}, "text": "x"},
        "abort": {},
        "check_flags": {"argv": []},
        "watching": {"owner": {"who": "ada"}, "every_s": 60},
        "judged": {"ok": True, "text": "x"},
        "evidence": {"op": OP},
    }
    answer = installed.arm(SHA) if verb == "arm" else installed.call(verb, **order.get(verb, {"op": OP}))
    assert (answer["ok"], answer["cause"]) == (False, "not_adopted")


def test_every_verb_is_there() -> None:
    for module, fields, act in helper.VERBS.values():
        found = importlib.import_module(f"ddtune.onhost.{module}")
        assert callable(getattr(found, act))
        assert all(callable(check) for check in getattr(found, fields).values())


def test_a_bug_is_an_answer_without_values() -> None:
    def broken() -> dict[str, Any]:
        raise ValueError("sk-secret")

    answer = helper.guarded(broken)
    assert (answer["ok"], answer["cause"]) == (False, "unknown")
    assert answer["message"].startswith("the helper has a bug: ValueError at test_requests.py:")


def test_log_lines_as_evidence_are_cleaned_not_refused() -> None:
    assert schema.cleaned(5)("a\x1b[31mbcdef") == "a?[31"
