"""Putting a service under ddtune and taking it out again; no step restarts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddtune.host import bundle
from tests.unit.onhost_helper.host import HERE, OWNER, UNIT, Host, mode


def everything(host: Host) -> dict[str, bytes]:
    """All files but what the service manager itself remembers."""
    files = [
        path
        for path in host.root.rglob("*")
        if path.is_file() and "systemd" not in path.relative_to(host.root).parts[:1]
    ]
    return {str(path.relative_to(host.root)): path.read_bytes() for path in files}


def test_installing_writes_the_programs_for_all_to_read_and_nobody_to_change(host: Host) -> None:
    os.umask(0o077)
    try:
        answer = host.install()
    finally:
        os.umask(0o022)
    assert answer["pyz_sha256"] == bundle.pyz_sha256()
    assert answer["problems"] == []
    lib = host.file("usr/local/lib/ddtune/1")
    assert (lib / "ddtune-onhost.pyz").read_bytes() == bundle.pyz()
    assert json.loads((lib / "install.json").read_text()) == host.constants
    assert [mode(path) for path in (lib, *sorted(lib.iterdir()))] == [0o755, 0o644, 0o644, 0o644]
    assert mode(host.file("usr/local/libexec/ddtune-host")) == 0o755
    assert mode(host.file("usr/local/sbin/ddtune-rollback")) == 0o755
    assert "become" not in host.file("etc/systemd/system/ddtune-ended@.service").read_text()
    hello = host.ok("hello", unit=None)
    assert hello["pyz_sha256"] == bundle.pyz_sha256()
    assert (hello["systemd_version"], hello["problems"], hello["units"]) == ("252", [], [])


def test_installing_again_changes_nothing(host: Host) -> None:
    host.install()
    before = everything(host)
    host.install()
    assert everything(host) == before


def test_a_file_that_is_no_zipapp_is_refused(host: Host) -> None:
    assert host.install(b"#!/bin/sh\n")["message"] == "field 'pyz_b64' is not a zipapp"
    assert not host.file("usr").exists()


def test_a_python_that_does_not_work_is_refused(host: Host) -> None:
    host.constants["python"] = "/bin/false"
    assert "/bin/false is older than Python 3.9" in host.install()["message"]
    assert not host.file("usr").exists()


def test_hello_tells_who_could_change_the_programs(host: Host) -> None:
    host.install()
    host.file("usr/local/lib/ddtune/1/install.json").chmod(0o666)
    host.file("usr/local").chmod(0o777)
    problems = host.ok("hello", unit=None)["problems"]
    assert len(problems) == 2
    assert all("can be written by others" in problem for problem in problems)


def test_adopting_keeps_what_runs_and_restarts_nothing(host: Host) -> None:
    host.install()
    host.write_unit("--tp-size", "2", "--api-key", "sk-1")
    pid = host.start()
    site = {"arch": "sm_103", "build": "0.5.23+x", "dialect": "ddtree-pr29907"}
    answer = host.ok("adopt", owner=OWNER, site=site, profile="b8-nvls", meta={"axes": {"budget": 8}})
    assert host.pid() == pid
    assert "sk-1" not in json.dumps(answer)
    sha = answer["release"]
    release = json.loads(host.state_file("releases", sha, "release.json").read_text())
    assert release["argv"] == host.argv()
    assert (release["cwd"], release["env_set"], release["env_unset"]) == (str(host.root), {}, [])
    assert mode(host.state_file("releases", sha, "release.json")) == 0o440
    assert mode(host.state_file("base.json")) == 0o440
    assert os.readlink(host.state_file("stable")) == f"releases/{sha}"
    state = host.ok("state")
    assert state["adopted"] is True
    assert {**state["site"], "at": 0} == {
        **site, "at": 0, "profile": "b8-nvls", "user": "", "group": "", "stop_timeout_s": 45,
        "api_port": host.port, "api_key_file": None,
    }  # fmt: skip
    assert state["stable"]["profile"] == "b8-nvls"
    assert [line["event"] for line in state["history"]] == ["adopted"]
    inspected = host.ok("inspect", env=["SGLANG_DDTREE_MAX_TOPK", "NO_SUCH", "HF_TOKEN"])
    assert inspected["matches"] == {"release": sha}
    assert inspected["release_env_ok"] is True
    assert inspected["env"] == {"SGLANG_DDTREE_MAX_TOPK": "4", "NO_SUCH": None, "HF_TOKEN": None}
    assert [one["name"] for one in inspected["schedulers"]] == ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
    assert inspected["drop_ins"] == [str(host.file("etc/systemd/system", f"{UNIT}.d", "zz-ddtune.conf"))]


def test_the_next_start_after_adoption_runs_the_same_engine(host: Host) -> None:
    host.adopted("--tp-size", "1")
    argv = host.argv()
    host.systemctl("stop", UNIT)
    host.start()
    assert host.argv() == argv
    assert host.ok("inspect")["release_env_ok"] is True


def test_what_is_said_of_the_release_is_what_a_release_may_have(host: Host) -> None:
    """A time that is none would keep the host's state, which sorts by it, from being read by anybody."""
    host.install()
    host.write_unit()
    host.start()
    for meta in ({"created": "x"}, {"argv_sha256": "x"}, {"axes": []}):
        cause, message = host.refused("adopt", owner=OWNER, meta=meta)
        assert (cause, "'meta'" in message) == ("unknown", True), message
    host.ok("adopt", owner=OWNER, meta={"axes": {"budget": 8}, "build": None})
    host.put("--speculative-ddtree-budget", "16")
    assert len(host.ok("state")["releases"]) == 2


def test_adopting_twice_changes_nothing(host: Host) -> None:
    sha = host.adopted()
    before = everything(host)
    answer = host.ok("adopt", profile="another", owner=OWNER)
    assert (answer["already"], answer["release"], answer["site"]["profile"]) == (True, sha, "adopted")
    assert everything(host) == before


@pytest.mark.parametrize("step", ["fail-daemon-reload", "ignore-reload"])
def test_a_step_that_fails_takes_all_back(host: Host, step: str) -> None:
    host.install()
    host.write_unit()
    pid = host.start()
    before = everything(host)
    host.file("systemd", step).touch()
    answer = host.call("adopt", owner=OWNER)
    assert answer["ok"] is False
    host.file("systemd", step).unlink()
    assert everything(host) == before
    assert not host.file("etc/systemd/system", f"{UNIT}.d").exists()
    assert not host.state_file().exists()
    assert host.pid() == pid


def test_an_argv_that_is_not_the_units_is_drift(host: Host) -> None:
    host.install()
    host.write_unit("--speculative-ddtree-budget", "8")
    host.start()
    host.write_unit("--speculative-ddtree-budget", "16")
    answer = host.call("adopt", owner=OWNER)
    assert answer["cause"] == "drift"
    assert "--speculative-ddtree-budget 16" in answer["detail"]["on_disk"]
    assert "--speculative-ddtree-budget 8" in answer["detail"]["running"]
    assert not host.state_file().exists()


def test_another_start_than_the_judged_one_is_drift(host: Host) -> None:
    host.install()
    host.write_unit()
    host.start()
    assert host.refused("adopt", invocation="0" * 32)[0] == "drift"
    host.ok("adopt", invocation=host.invocation())


@pytest.mark.parametrize(
    ("settings", "command", "words"),
    [
        ("Type=forking\n", None, "Type=forking"),
        ("", '/bin/sh -c "sleep 1000; true"', "runs a shell (/bin/sh -c)"),
        ("", "/bin/sleep 1000", "is not SGLang"),
    ],
)
def test_units_of_other_kinds_are_refused(host: Host, settings: str, command: str | None, words: str) -> None:
    host.install()
    host.write_unit(exec_start=command, settings=settings)
    host.systemctl("start", UNIT)
    cause, message = host.refused("adopt")
    assert cause == "unsupported_unit"
    assert words in message
    assert not host.state_file().exists()


def test_a_service_that_is_down_or_unknown_is_refused(host: Host) -> None:
    host.install()
    assert "has no unit file" in host.refused("adopt")[1]
    host.write_unit()
    assert "is not running" in host.refused("adopt")[1]


def test_adopting_needs_the_programs(host: Host, tmp_path: Path) -> None:
    host.write_unit()
    host.start()
    request = {"proto": 1, "verb": "adopt", "unit": UNIT, "install": host.constants}
    done = subprocess.run(
        bundle.loader_argv(sys.executable, "helper"),
        input=bundle.loader_payload("ddtune.onhost.main") + json.dumps(request).encode(),
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert (answer["ok"], answer["cause"]) == (False, "not_adopted")


def test_unadopting_leaves_the_service_running_and_nothing_of_ours(host: Host) -> None:
    host.write_unit()
    pid = host.start()
    before = everything(host)
    host.install()
    host.ok("adopt", owner=OWNER)
    answer = host.ok("unadopt", programs=True)
    assert host.pid() == pid
    assert everything(host) == before
    assert answer["stays"] == []
    assert answer["next_start"] == {"differs": False, "command": None}
    host.systemctl("stop", UNIT)
    host.start()


def test_unadopting_can_leave_the_helper(host: Host) -> None:
    host.adopted()
    answer = host.ok("unadopt", programs=True, keep_helper=True)
    helper = host.file("usr/local/libexec/ddtune-host")
    assert answer["stays"] == [str(helper)]
    assert answer["by_hand"] == f"rm {helper}"
    assert [path for path in host.file("usr").rglob("*") if path.is_file()] == [helper]
    assert host.refused("unadopt") == (
        "not_adopted",
        "ddtune's programs were removed from this host: run its installer again",
    )


def test_unadopting_again_finds_nothing_to_do(host: Host) -> None:
    host.adopted()
    host.ok("unadopt")
    assert host.ok("unadopt")["removed"] == []


def test_unadopting_says_when_the_next_start_runs_something_else(host: Host) -> None:
    host.adopted()
    host.write_unit("--speculative-ddtree-budget", "4")
    answer = host.ok("unadopt")
    assert answer["next_start"]["differs"] is True
    assert "--speculative-ddtree-budget 4" in answer["next_start"]["command"]


def test_the_build_is_asked_for_once(host: Host) -> None:
    host.adopted("--api-key", "k")
    looked = host.ok("probe_build")
    assert not list(host.root.rglob("build.json")), "who only looks writes nothing"
    first = host.ok("probe_build", keep=True)
    assert {**first, "seconds": 0.0} == {**looked, "seconds": 0.0}
    assert first["flags"] == ["--admin-api-key", "--api-key", "--help", "--key", "--port",
                              "--speculative-ddtree-budget", "--tp-size"]  # fmt: skip
    assert first["version"] == "0.5.23"
    assert first["build"].startswith("0.5.23+")
    assert host.ok("probe_build") == {**first, "seconds": 0.0}
    assert HERE.joinpath("engine/sglang").is_dir()
