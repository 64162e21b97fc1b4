"""What a release may be, and where keys go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ddtune.profiles.model import Release
from tests.unit.onhost_helper.host import PLACEHOLDER, Host, mode

KEYS = ("--api-key", "sk-1", "--admin-api-key=sk-2")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("releases") / "root")
    host.adopted(*KEYS)
    yield host
    host.end()


def release(host: Host, **changes: Any) -> dict[str, Any]:
    base = host.ok("base")
    return {"argv": base["argv"], "cwd": base["cwd"], "env_set": {}, "env_unset": [], "schema": 1, **changes}


def test_a_release_is_named_as_the_operator_names_it(host: Host) -> None:
    host.adopted()
    wanted = release(host, env_set={"NCCL_NVLS_ENABLE": "0", "Ä": "ü"}, env_unset=["B", "A"])
    del wanted["env_set"]["Ä"]
    sha = host.ok("put_release", release=wanted, meta={"profile": "b16", "axes": {"budget": 16}})["release"]
    same = Release(tuple(wanted["argv"]), wanted["env_set"], tuple(wanted["env_unset"]), wanted["cwd"])
    assert sha == same.sha256
    stored = host.state_file("releases", sha, "release.json")
    assert stored.read_bytes() == same.canonical()
    assert mode(stored) == 0o440
    before = stored.stat().st_ino
    assert host.ok("put_release", release=wanted)["release"] == sha
    assert stored.stat().st_ino == before
    found = host.ok("release", sha=sha)
    assert found["meta"]["profile"] == "b16"
    assert found["release"]["env_unset"] == ["A", "B"]


def test_keys_never_leave_the_host_and_are_filled_in_again(keyed: Host) -> None:
    base = keyed.ok("base")
    assert base["argv"][-3:] == ["--api-key", PLACEHOLDER, f"--admin-api-key={PLACEHOLDER}"]
    sha = keyed.put("--speculative-ddtree-budget", "16")
    stored = json.loads(keyed.state_file("releases", sha, "release.json").read_text())["argv"]
    assert stored[-5:] == [*KEYS, "--speculative-ddtree-budget", "16"]
    for verb, fields in (("base", {}), ("state", {}), ("inspect", {}), ("release", {"sha": sha})):
        assert "sk-" not in json.dumps(keyed.ok(verb, **fields))
    assert "sk-1" in " ".join(keyed.argv())


def test_a_placeholder_without_a_key_to_fill_in_is_refused(host: Host) -> None:
    host.adopted()
    argv = [*host.ok("base")["argv"], "--api-key", PLACEHOLDER]
    cause, message = host.refused("put_release", release=release(host, argv=argv))
    assert cause == "unknown"
    assert "adopted without --api-key" in message
    argv = [*host.ok("base")["argv"], "--served-model-name", PLACEHOLDER]
    assert "only as the value of --api-key" in host.refused("put_release", release=release(host, argv=argv))[1]


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "CUDA_INJECTION64_PATH",
        "NCCL_NET_PLUGIN",
        "TRITON_PTXAS_PATH",
    ],
)
@pytest.mark.parametrize("how", ["env_set", "env_unset"])
def test_code_of_others_is_kept_out_of_the_environment(keyed: Host, name: str, how: str) -> None:
    value = {name: "/tmp/x"} if how == "env_set" else [name]
    cause, message = keyed.refused("put_release", release=release(keyed, **{how: value}))
    assert cause == "unknown"
    assert name in message


def test_what_the_service_had_may_be_changed(keyed: Host) -> None:
    keyed.ok("put_release", release=release(keyed, env_set={"PYTHONPATH": "/opt/x"}))


@pytest.mark.parametrize("name", ["INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "SYSTEMD_EXEC_PID"])
def test_what_systemd_sets_is_not_kept(keyed: Host, name: str) -> None:
    assert name in keyed.refused("put_release", release=release(keyed, env_set={name: "x"}))[1]


def test_another_program_or_folder_is_refused(keyed: Host) -> None:
    argv = keyed.ok("base")["argv"]
    for changed in (["/bin/sh", *argv[1:]], [argv[0], "-c", "print()"], argv[:1]):
        message = keyed.refused("put_release", release=release(keyed, argv=changed))[1]
        assert "must start as the service was adopted" in message
    assert "must start in the folder" in keyed.refused("put_release", release=release(keyed, cwd="/tmp"))[1]


def test_outcomes_are_recorded_once_for_an_operation(keyed: Host) -> None:
    entry = {"op": "20261129185959-abc", "outcome": "failed", "cause": "cublas_error", "axes": {"budget": 64}}
    assert keyed.ok("record", entry=entry)["added"] is True
    assert keyed.ok("record", entry=entry)["added"] is False
    assert [{**kept, "at": 0} for kept in keyed.ok("state")["envelope"]] == [{**entry, "at": 0}]
