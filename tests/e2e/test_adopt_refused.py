"""Services that ddtune does not take, each with its reason, and then nothing on the host has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import HERE, Guest, booted, free_port, wait_until
from tests.e2e.host_files import changes, snapshot
from tests.e2e.kinds import argv, drop_ins, unit_text
from tests.e2e.operator import HOST, Operator
from tests.e2e.unit import ENVIRONMENT, UNIT

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    with booted(tmp_path_factory.mktemp("refused")) as guest:
        guest.put("/usr/local/bin/nvidia-smi", (HERE / "nvidia_smi.py").read_text(), "755")
        yield guest


@pytest.fixture
def operator(guest: Guest, tmp_path: Path) -> Iterator[Operator]:
    """Root's side; what a test has written is gone after it."""
    yield Operator(guest, tmp_path, unit=UNIT)
    guest.console(["systemctl", "stop", UNIT], check=False)
    guest.console(
        ["sh", "-c", f"rm -rf /etc/systemd/system/{UNIT} /etc/systemd/system/{UNIT}.d; systemctl daemon-reload"]
    )


def start(guest: Guest, text: str) -> None:
    guest.put(f"/etc/systemd/system/{UNIT}", text)
    guest.console(["systemctl", "daemon-reload"])
    guest.console(["systemctl", "restart", UNIT])
    wait_until("the service serves", guest.ready, 60)


def forking(guest: Guest) -> str:
    script = f"#!/bin/sh\n{argv(guest.api_port)} &\nwait\n"
    guest.put("/usr/local/bin/forks", script, "755")
    start(guest, unit_text("/usr/local/bin/forks"))
    return "starts the engine as a child"


def shell(guest: Guest) -> str:
    start(guest, unit_text(f"/bin/sh -c 'exec {argv(guest.api_port)}'"))
    return "runs a shell (/bin/sh -c)"


def container(guest: Guest) -> str:
    """A stand-in for docker, which stays beside what it has started."""
    guest.put("/usr/local/bin/docker", f"#!/bin/sh\n{argv(guest.api_port)} &\nwait\n", "755")
    guest.console(["sh", "-c", "cp /bin/dash /usr/local/bin/.d && mv /usr/local/bin/docker /usr/local/bin/docker.sh"])
    guest.console(["mv", "/usr/local/bin/.d", "/usr/local/bin/docker"])
    start(guest, unit_text("/usr/local/bin/docker /usr/local/bin/docker.sh run --gpus all lmsysorg/sglang:latest"))
    return "runs docker: services in containers are not supported"


def other_command(guest: Guest) -> str:
    start(guest, unit_text(argv(guest.api_port)))
    guest.put(f"/etc/systemd/system/{UNIT}", unit_text(f"{argv(guest.api_port)} --served-model-name other"))
    guest.console(["systemctl", "daemon-reload"])
    return "does not run what its unit file says"


def changed_wrapper(guest: Guest) -> str:
    guest.put("/usr/local/bin/execs", f"#!/bin/sh\nexec {argv(guest.api_port)}\n", "755")
    start(guest, unit_text("/usr/local/bin/execs"))
    wait_until("the clock's next second", lambda: guest.console(["sleep", "1.2"]))
    guest.put("/usr/local/bin/execs", f"#!/bin/sh\nexec {argv(guest.api_port)} --served-model-name other\n", "755")
    return "/usr/local/bin/execs was changed after"


def limiting_wrapper(guest: Guest) -> str:
    guest.put("/usr/local/bin/limits", f"#!/bin/sh\nulimit -n 999\nexec {argv(guest.api_port)}\n", "755")
    start(guest, unit_text("/usr/local/bin/limits"))
    return "LimitNOFILE=999:999"


def acting_wrapper(guest: Guest) -> str:
    """What it does besides naming a command would be lost: its priority, and the file that all output goes to."""
    script = f"#!/bin/sh\nexec >>/tmp/kimi.log 2>&1\nexec nice -n 5 {argv(guest.api_port)}\n"
    guest.put("/usr/local/bin/acts", script, "755")
    start(guest, unit_text("/usr/local/bin/acts"))
    return "Nice=5, StandardOutput=append:/tmp/kimi.log, StandardError=append:/tmp/kimi.log"


def dropping_wrapper(guest: Guest) -> str:
    """Started as root, it becomes another user by itself."""
    script = f"#!/bin/sh\nexec setpriv --reuid sglang --regid sglang --init-groups {argv(guest.api_port)}\n"
    guest.put("/usr/local/bin/drops", script, "755")
    start(guest, unit_text("/usr/local/bin/drops").replace("User=sglang\n", ""))
    return "put User=sglang Group=sglang into its [Service]"


def privileged_command(guest: Guest) -> str:
    start(guest, unit_text(f"+{argv(guest.api_port)}"))
    return "put User=root Group=root into its [Service]"


def hidden_state(guest: Guest) -> str:
    start(guest, unit_text(argv(guest.api_port), "TemporaryFileSystem=/var/lib"))
    return "does not see /var/lib of this host"


@pytest.mark.parametrize(
    "kind",
    [
        *(forking, container, changed_wrapper, acting_wrapper, dropping_wrapper),
        # Their reasons are of onhost_helper/test_adopt.py and test_onhost_likeness.py as well.
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in (shell, other_command, limiting_wrapper, privileged_command, hidden_state)
        ),
    ],
    ids=lambda kind: kind.__name__,
)
def test_is_refused_with_its_reason(guest: Guest, operator: Operator, kind: Callable[[Guest], str]) -> None:
    reason = kind(guest)
    before, pid = snapshot(guest), guest.show("MainPID")
    answer = operator.run("adopt", HOST, "--json")
    assert answer.code == 7, answer
    assert reason in answer.json["error"]["message"]
    if kind is other_command:
        assert "--served-model-name other" in answer.json["detail"]["on_disk"]
        assert "--served-model-name" not in answer.json["detail"]["running"]
    if kind is container:
        said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
        assert said["kind"]["ok"] is False
        assert reason in said["kind"]["seen"]
    assert changes(before, snapshot(guest)) == []
    assert guest.show("MainPID") == pid


def test_k5_04_the_effective_command_counts_and_a_later_drop_in_that_wins_is_refused(
    guest: Guest, operator: Operator
) -> None:
    drop_ins(guest)
    guest.console(["systemctl", "daemon-reload"])
    guest.console(["systemctl", "restart", UNIT])
    wait_until("the service serves", guest.ready, 60)
    late = f"/etc/systemd/system/{UNIT}.d/zzz-site.conf"
    guest.put(late, f"[Service]\nExecStart=\nExecStart={argv(guest.api_port)} --served-model-name v\n")
    guest.console(["systemctl", "daemon-reload"])
    said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
    assert said["kind"]["ok"], "merged as systemd merges it, not read from the unit file"
    assert "zzz-site.conf is read after ddtune's drop-in" in said["drop-ins"]["cost"]
    before, pid = snapshot(guest), guest.show("MainPID")
    answer = operator.run("adopt", HOST, "--json")
    assert answer.code == 7, answer
    assert f"{late} is read after it and sets ExecStart=" in answer.json["error"]["message"]
    left = changes(before, snapshot(guest))
    assert not [line for line in left if UNIT in line], "taken back"
    guest.put(late, "[Service]\nEnvironment=SITE_NAME=last\n")
    guest.console(["systemctl", "daemon-reload"])
    # K5-06: that systemd says "changed on disk" is no reason to refuse either.
    guest.console(["sh", "-c", f"sleep 1.1; touch {late}"])
    adopted = operator.run("adopt", HOST, "--json", timeout=150)
    assert adopted.code == 0, adopted
    assert any("zzz-site.conf is read after" in warning for warning in adopted.json["warnings"])
    assert guest.show("MainPID") == pid
    assert operator.run("unadopt", HOST).code == 0


def test_a_unit_of_another_name_or_of_no_file_is_refused(guest: Guest, tmp_path: Path, operator: Operator) -> None:
    start(guest, unit_text(argv(guest.api_port)).replace("[Install]", "[Install]\nAlias=llm.service"))
    guest.console(["systemctl", "enable", UNIT])
    alias = Operator(guest, tmp_path / "alias", unit="llm.service").run("adopt", HOST, "--json")
    assert alias.code == 7, alias
    assert f"llm.service is another name of {UNIT}" in alias.json["error"]["message"]
    guest.console(["sh", "-c", f"systemctl disable {UNIT}; systemctl stop {UNIT}"])
    given = [f"--setenv={name}={value}" for name, value in ENVIRONMENT.items()]
    given += ["-pUser=sglang", "-pWorkingDirectory=/home/sglang", "-pRuntimeDirectory=sglang"]
    guest.console(["systemd-run", "--unit=passing", *given, *argv(guest.api_port).split()])
    try:
        wait_until("the service serves", guest.ready, 60)
        passing = Operator(guest, tmp_path / "passing", unit="passing.service").run("adopt", HOST, "--json")
        assert passing.code == 7, passing
        assert "made by systemd-run" in passing.json["error"]["message"]
    finally:
        guest.console(["systemctl", "stop", "passing"])


def test_k5_06_a_unit_that_was_only_touched_is_no_error(guest: Guest, operator: Operator) -> None:
    start(guest, unit_text(argv(guest.api_port)))
    guest.console(["sh", "-c", f"sleep 1.1; touch /etc/systemd/system/{UNIT}"])
    assert guest.show("NeedDaemonReload") == "yes"
    said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
    assert said["changed files"]["ok"] is None
    assert said["kind"]["ok"]


def test_several_services_are_listed_and_one_is_named(guest: Guest, tmp_path: Path, operator: Operator) -> None:
    start(guest, unit_text(argv(guest.api_port)))
    other = "sglang-b.service"
    guest.put(f"/etc/systemd/system/{other}", unit_text(argv(free_port()).replace("/run/sglang/", "/run/sglang-b/")))
    guest.console(["systemctl", "daemon-reload"])
    guest.console(["systemctl", "start", other])
    try:
        wait_until("the other one runs", lambda: "--port" in guest.main_argv(other))
        anyone = Operator(guest, tmp_path / "anyone", unit="")
        anyone.config.write_text(anyone.config.read_text().replace('unit = ""\n', ""))
        answer = anyone.run("adopt", HOST, "--json")
        assert answer.code == 2, answer
        assert f"{HOST}:{other}" in answer.json["error"]["message"]
        assert f"{HOST}:{UNIT}" in answer.json["error"]["message"]
        doctor = anyone.run("doctor", f"{HOST}:{UNIT}", "--json").json
        assert doctor["unit"] == UNIT
        seen = {one["name"]: one for one in anyone.run("doctor", HOST, "--json").json["symptoms"]}["unit"]
        assert seen["ok"] is False
        assert f"{HOST}:{other}" in seen["mend"]
    finally:
        guest.console(["sh", "-c", f"systemctl stop {other}; rm /etc/systemd/system/{other}; systemctl daemon-reload"])
