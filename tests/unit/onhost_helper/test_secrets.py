"""A key on the service's command line: what ddtune keeps of it, who may read that, and that nothing public tells it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from pathlib import Path

import pytest

from ddtune.onhost import releases
from ddtune.onhost.redact import HIDDEN
from tests.unit.onhost_helper.host import PLACEHOLDER, UNIT, Host, mode, wait_until

# So weak that whoever could check a guess would have it at once.
KEY, ADMIN = "1234", "4321"
OP = "20261129185959-abc"
QUESTION = "ChatCompletionRequest(messages=[{'role': 'user', 'content': 'for nobody else'}])"


@pytest.fixture
def host_with_keys(host: Host) -> Host:
    host.adopted("--api-key", KEY, f"--admin-api-key={ADMIN}")
    return host


def _guesses() -> list[str]:
    return ["".join(digits) for digits in itertools.product("1234", repeat=4)]


def test_no_weak_key_can_be_guessed_from_what_everybody_reads(host_with_keys: Host) -> None:
    host = host_with_keys
    name = host.put("--speculative-ddtree-budget", "16")
    meta = json.loads(host.state_file("releases", name, "meta.json").read_text())
    found = json.loads(host.state_file("releases", name, "release.json").read_text())
    known = {**found, "argv": host.ok("release", sha=name)["release"]["argv"]}
    assert known["argv"].count(PLACEHOLDER) == 1
    known.pop("salt")
    tried = set()
    for api, admin in itertools.product(_guesses(), [*_guesses()[:4], ADMIN]):
        argv = [api if word == PLACEHOLDER else word.replace(PLACEHOLDER, admin) for word in known["argv"]]
        tried.add(hashlib.sha256(releases.canonical({**known, "argv": argv})).hexdigest())
        tried.add(hashlib.sha256("\0".join(argv).encode()).hexdigest())
    assert name not in tried
    assert meta["argv_sha256"] not in tried
    # The same release has the same name again, and it starts.
    assert host.put("--speculative-ddtree-budget", "16") == name
    assert "salt" not in host.ok("release", sha=name)["release"]


def test_the_salt_is_roots_alone(host_with_keys: Host) -> None:
    host_with_keys.put("--speculative-ddtree-budget", "16")
    assert mode(host_with_keys.state_file("salt")) == 0o400


def test_a_release_without_a_key_is_named_by_what_it_is(host: Host) -> None:
    host.adopted()
    name = host.put("--speculative-ddtree-budget", "16")
    found = host.ok("release", sha=name)["release"]
    assert hashlib.sha256(releases.canonical(found)).hexdigest() == name
    assert '"salt"' not in host.state_file("releases", name, "release.json").read_text()


def test_a_secret_variable_counts_as_a_key(host: Host) -> None:
    host.adopted()
    name = host.put(env={"HF_TOKEN": "1234"})
    assert "salt" in json.loads(host.state_file("releases", name, "release.json").read_text())


def test_a_secret_variable_is_told_to_no_viewer(host: Host) -> None:
    host.adopted()
    name = host.put(env={"HF_TOKEN": "hf-planted", "SGLANG_API_KEY": "sk-planted", "SGLANG_X": "1"})
    told = host.viewed("release", sha=name)["release"]
    assert told["env_set"] == {"HF_TOKEN": HIDDEN, "SGLANG_API_KEY": HIDDEN, "SGLANG_X": "1"}
    assert host.ok("release", sha=name)["release"]["env_set"]["HF_TOKEN"] == "hf-planted"
    # What was told is no release: put back as it is, it would start the service with a placeholder for its secret.
    cause, message = host.refused("put_release", release=told, meta={})
    assert (cause, "HF_TOKEN" in message) == ("unknown", True)


def test_what_runs_is_known_again_without_its_key(host_with_keys: Host) -> None:
    name = host_with_keys.put("--speculative-ddtree-budget", "16")
    for verb in ("swap", "stop", "start"):
        if verb == "swap":
            assert host_with_keys.arm(name, op=OP)["ok"]
        host_with_keys.ok(verb, op=OP)
    wait_until("the candidate listens", host_with_keys.listens)
    assert host_with_keys.ok("inspect")["matches"]["release"] == name
    assert host_with_keys.argv()[-1] == "16"
    assert KEY in host_with_keys.argv()


def test_nothing_that_others_may_read_holds_a_long_key(host: Host) -> None:
    key, admin = "sk-planted-7f3a9c", "adm-planted-0b1d"
    host.adopted("--api-key", key, f"--admin-api-key={admin}")
    name = host.put("--speculative-ddtree-budget", "16")
    assert host.arm(name, op=OP)["ok"]
    for verb in ("swap", "stop", "start"):
        host.ok(verb, op=OP)
    # As an engine prints its arguments when it dies, and as nobody has ever seen a key printed.
    lines = (f"RuntimeError: ServerArgs(api_key='{key}')", f"ValueError: {admin}", "Bearer sk-other", QUESTION)
    host.ok("fail", op=OP, cause="wrong_output", evidence=[{"source": "unit", "text": line} for line in lines])
    assert "RuntimeError" in json.dumps(host.ok("state")["txn"]["evidence"])
    assert not any(word in json.dumps(host.ok("state")) for word in ("sk-other", "nobody else"))
    said = [host.call(verb) for verb in ("hello", "state", "base", "inspect", "probe_build")]
    said += [host.call("release", sha=name), host.call("evidence", op=OP)]
    assert not any(value in json.dumps(answer) for value in (key, admin) for answer in said)
    own = host.root / "etc/systemd/system" / UNIT
    holding = [path for path in _files(host.root) if path != own and "systemd/" not in str(path) and _holds(path, key)]
    assert {path.name for path in holding} <= {"release.json", "base.json", "chosen"}
    assert not [path for path in holding if os.stat(path).st_mode & 0o007]


def test_a_deliberate_leak_is_found(host: Host) -> None:
    host.install()
    (host.root / "var/lib/ddtune/leak.json").write_text('{"note": "sk-planted-7f3a9c"}')
    assert [path.name for path in _files(host.root) if _holds(path, "sk-planted-7f3a9c")] == ["leak.json"]


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]


def _holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()
