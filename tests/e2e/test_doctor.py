"""The first contact with a host that has nothing of ddtune, by a login that may do little, and its odd ways."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.guest import booted, free_port, wait_until
from tests.e2e.host_files import changes, snapshot
from tests.e2e.kinds import wrapper
from tests.e2e.login import HELPER, SUDOERS, Site
from tests.e2e.operator import HOST, Operator
from tests.e2e.unit import UNIT

pytestmark = pytest.mark.timeout(200)
EVERY_LINE = {
    "link", "host key", "login", "login shell", "fresh login", "python", "systemd", "unit", "kind", "drop-ins",
    "kill mode", "restart", "service user", "engine", "dialect", "metrics", "journal", "kernel log", "gpus", "gpm",
    "room /var/lib", "room /run", "room /dev/shm", "root", "programs", "adoption",
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service behind a wrapper, which ops comes to; nothing of ddtune is there."""
    folder = tmp_path_factory.mktemp("doctor")
    with booted(folder) as guest:
        yield Site(guest, folder / "operator", wrapper(guest), "ops")


def doctor(operator: Operator, code: int = 9) -> dict[str, Any]:
    """The lines by name."""
    answer = operator.run("doctor", HOST, "--json")
    assert answer.code == code, answer
    return {one["name"]: one for one in answer.json["symptoms"]}


def status(operator: Operator) -> Any:
    answer = operator.run("status", HOST, "--json")
    assert answer.code == 0, answer
    return answer.json


def test_every_line_is_there_and_nothing_on_the_host_changes(site: Site) -> None:
    said = doctor(site.operator)
    assert set(said) == EVERY_LINE
    for line in said.values():
        assert line["seen"]
        if line["ok"] is False:
            assert line["cost"], line
            assert line["mend"], line
    assert said["kind"]["seen"].startswith("a wrapper that ends in exec")
    assert "555 flags" in said["engine"]["seen"]
    assert (said["root"]["ok"], said["programs"]["ok"], said["adoption"]["ok"]) == (False, None, None)
    assert site.left() == []
    assert site.untouched()


def test_k5_15_a_journal_that_may_not_be_read_is_no_empty_one(site: Site) -> None:
    said = doctor(site.operator)
    assert "no permission to read the journal (group systemd-journal)" in said["journal"]["seen"]
    assert "unknown, not none" in said["kernel log"]["cost"]
    reading = status(site.operator)
    assert reading["service"]["state"] == "active"
    assert len(reading["gpus"]) == 8
    assert any("no permission to read the journal" in note for note in reading["notes"]), reading["notes"]
    text = site.operator.run("status", HOST)
    assert "no permission to read the journal" in text.out


def test_k5_15_a_member_of_the_group_may(site: Site, tmp_path: Path) -> None:
    site.guest.console(["gpasswd", "-a", "ops", "systemd-journal"])
    try:
        said = doctor(site.operator)
        assert said["journal"]["ok"]
        assert said["kernel log"]["ok"]
        assert not any("permission" in note for note in status(site.operator)["notes"])
    finally:
        site.guest.console(["gpasswd", "-d", "ops", "systemd-journal"])


def test_k6_08_rights_are_probed_before_anything_is_begun(site: Site) -> None:
    """A later line of sudoers undoes NOPASSWD: nothing is half done, and the host can still be watched."""
    guest = site.guest
    bare = snapshot(guest)
    site.install_by_script()
    assert guest.out(["cat", SUDOERS]).splitlines()[-1] == f'ops ALL=(root) NOPASSWD: {HELPER} ""'
    assert guest.show("User") == "sglang"
    said = doctor(site.operator)
    assert said["root"]["seen"] == "ops may run ddtune's helper by sudo, and nothing else"
    for other in (["true"], [HELPER, "x"], ["systemctl", "restart", UNIT]):
        assert guest.ssh(["sudo", "-n", *other], user="ops", check=False).returncode == 1
    guest.put("/etc/sudoers.d/zz-later", "ops ALL=(ALL) PASSWD: ALL\n", "440")
    try:
        before = snapshot(guest)
        said = doctor(site.operator)
        assert "asks for a password" in said["root"]["seen"]
        for command in (["adopt"], ["switch", "b16-eager", "--yes"]):
            answer = site.operator.run(command[0], HOST, *command[1:], "--json")
            assert answer.code == 7, answer
            assert answer.json["error"]["cause"] == "read_only"
            assert "asks for a password" in answer.json["error"]["message"]
        assert status(site.operator)["service"]["unit"] == UNIT
        assert changes(before, snapshot(guest)) == []
        assert site.untouched()
    finally:
        guest.console(["rm", "/etc/sudoers.d/zz-later"])
        guest.console(
            ["sh", "-c", f"rm -rf {SUDOERS} {HELPER} {HELPER}-ro /usr/local/lib/ddtune /usr/local/sbin/ddtune-rollback"]
        )
        guest.console(["sh", "-c", "rm -rf /etc/systemd/system/ddtune-ended@.service /var/lib/ddtune /run/ddtune"])
        guest.console(["rmdir", os.path.dirname(HELPER)])
    assert changes(bare, snapshot(guest)) == []


def test_k6_10_a_login_shell_that_is_no_sh(site: Site) -> None:
    guest = site.guest
    guest.console(["usermod", "-s", "/usr/bin/fish", "ops"])
    try:
        said = doctor(site.operator)
        assert said["login shell"]["ok"]
        assert said["unit"]["ok"]
        assert status(site.operator)["service"]["state"] == "active"
    finally:
        guest.console(["usermod", "-s", "/bin/bash", "ops"])


def test_k6_10_a_start_up_file_that_swallows_commands_is_named_in_time(site: Site) -> None:
    guest = site.guest
    guest.console(["sh", "-c", "echo 'exec cat >/dev/null' >/home/ops/.bashrc"])
    try:
        answer = site.operator.run("doctor", HOST, "--json", timeout=60)
        assert answer.code == 9, answer
        said = {one["name"]: one for one in answer.json["symptoms"]}
        assert said["login shell"]["ok"] is False
        assert "start-up files of ops" in said["login shell"]["mend"]
        assert "python" not in said
    finally:
        guest.console(["sh", "-c", ": >/home/ops/.bashrc"])


def test_k6_11_what_a_login_prints_is_taken_for_no_answer(site: Site) -> None:
    guest = site.guest
    noise = """echo '{"proto": "mine"}'; echo Welcome to rack 7; echo '{"t": "unit"}'"""
    guest.console(["sh", "-c", f"cat >/home/ops/.bashrc <<'END'\n{noise}\nEND"])
    try:
        said = doctor(site.operator)
        assert "Welcome to rack 7" in said["login shell"]["seen"]
        assert said["unit"]["ok"]
        assert status(site.operator)["service"]["state"] == "active"
    finally:
        guest.console(["sh", "-c", ": >/home/ops/.bashrc"])


def by_alias(site: Site, folder: Path, lines: str) -> Operator:
    """An operator who knows the host by ~/.ssh/config alone."""
    operator = Operator(site.guest, folder)
    operator.config.write_text("")
    ssh = folder / "home/.ssh"
    (ssh / "conf.d").mkdir(parents=True)
    (ssh / "config").write_text(f"Include {ssh}/conf.d/*\n")
    known = ssh / "known_hosts"
    known.write_text(site.guest.known_hosts.read_text())
    (ssh / "conf.d/work.conf").write_text(f"{lines}Host *\n UserKnownHostsFile {known}\n")
    # OpenSSH goes by the home in passwd, whatever HOME says.
    program = folder / "bin/ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {ssh}/config "$@"\n')
    program.chmod(0o755)
    operator.env["PATH"] = f"{program.parent}:{operator.env['PATH']}"
    return operator


@pytest.fixture
def agent(site: Site, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An agent that holds seven keys which open nothing."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    environment = {"SSH_AUTH_SOCK": str(socket)}
    try:
        wait_until("the agent listens", socket.exists)
        for number in range(7):
            key = tmp_path / f"key{number}"
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
            subprocess.run(["ssh-add", "-q", key], check=True, env={**os.environ, **environment})
        yield environment
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("only", [True, False], ids=["identities-only", "agent-first"])
def test_k6_07_many_keys_of_an_agent(site: Site, tmp_path: Path, agent: dict[str, str], only: bool) -> None:
    lines = f"Host rack7\n HostName 127.0.0.1\n Port {site.guest.port}\n User ops\n"
    lines += f" IdentityFile {site.guest.identity}\n IdentitiesOnly yes\n" if only else " IdentityFile none\n"
    operator = by_alias(site, tmp_path / "operator", lines)
    operator.env.update(agent)
    answer = operator.run("doctor", "rack7", "--json")
    said = {one["name"]: one for one in answer.json["symptoms"]}
    if only:
        assert said["login"]["ok"], answer
        return
    assert answer.code == 8, answer
    assert said["link"]["ok"]
    assert "the agent's keys" in said["login"]["seen"]
    assert "IdentitiesOnly" in said["login"]["seen"]


def test_k6_13_an_included_file_and_an_ipv6_literal(site: Site, tmp_path: Path) -> None:
    guest, port = site.guest, free_port()
    config = f"Port {port}\nListenAddress ::1\nHostKey /etc/ssh/ssh_host_ed25519_key\nUsePAM yes\n"
    guest.put("/root/sshd6.conf", config)
    guest.console(["systemd-run", "--unit=sshd6", "/usr/sbin/sshd", "-D", "-f", "/root/sshd6.conf"])
    key = " ".join(guest.file("/etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2])
    lines = f"Host rack7\n HostName ::1\n Port {port}\n User ops\n IdentityFile {guest.identity}\n"
    operator = by_alias(site, tmp_path / "operator", f"{lines}Host *\n IdentityFile {guest.identity}\n")
    known = tmp_path / "operator/home/.ssh/known_hosts"
    known.write_text(f"[::1]:{port} {key}\n")
    try:
        wait_until("sshd listens on ::1", lambda: "sshd" in guest.out(["ss", "-Hltnp", f"sport = :{port}"]))
        for name in ("rack7", f"ops@[::1]:{port}", f"ops@[::1]:{port}:{UNIT}"):
            answer = operator.run("doctor", name, "--json")
            said = {one["name"]: one for one in answer.json["symptoms"]}
            assert said["login"]["ok"], (name, answer)
            assert said["unit"]["ok"], (name, answer)
    finally:
        guest.console(["systemctl", "stop", "sshd6"], check=False)
        guest.console(["rm", "/root/sshd6.conf"])
