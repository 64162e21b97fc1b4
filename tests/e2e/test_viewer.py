"""A login that may only look, over real sudo: one line lets it ask a helper without verbs that change anything."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddtune.onhost import helper
from tests.e2e.guest import Guest, booted
from tests.e2e.host_files import changes, snapshot
from tests.e2e.kinds import KINDS
from tests.e2e.login import HELPER, SUDOERS, Site
from tests.e2e.onhost import OWNER
from tests.e2e.operator import HOST, Operator

pytestmark = pytest.mark.timeout(300)
VIEWER = f"{HELPER}-ro"
LIB = "/usr/local/lib/ddtune"
PYZ = f"{LIB}/1/ddtune-onhost.pyz"
JSON = "$(/usr/bin/python3 -c 'import json; print(json.__file__)')"
CHANGES = (
    ("switch", HOST, "b8-nvls", "--yes"),
    ("restart", HOST, "--yes"),
    ("rollback", HOST, "--yes"),
    ("abort", HOST),
    ("gate", HOST, "--quick"),
    ("golden", HOST),
    ("unadopt", HOST),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service adopted by ops through the installer that root has read and run; eve may look."""
    folder = tmp_path_factory.mktemp("viewer")
    with booted(folder) as guest:
        site = Site(guest, folder / "operator", KINDS["direct"](guest), "ops")
        guest.console(["useradd", "--create-home", "eve"])
        guest.console(["sh", "-c", "cp -r /home/ops/.ssh /home/eve/ && chown -R eve: /home/eve/.ssh"])
        script = site.operator.run("adopt", HOST, "--print-installer", "--viewer", "eve")
        assert script.code == 0, script
        guest.console(["sh", "-s"], script.out.encode())
        site.run("adopt")
        yield site


@pytest.fixture
def eve(site: Site, tmp_path: Path) -> Operator:
    return Operator(site.guest, tmp_path / "eve", ssh="eve@127.0.0.1")


def _ask(guest: Guest, program: str, verb: str, unit: str | None, user: str = "eve", **fields: Any) -> dict[str, Any]:
    request = json.dumps({"proto": 1, "verb": verb, "unit": unit, **fields}).encode()
    done = guest.ssh(["sudo", "-n", program], request, user=user, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_one_line_allows_the_one_program_without_arguments(site: Site) -> None:
    allowed = site.guest.out(["sudo", "-n", "-l"], user="eve")
    assert [line.strip() for line in allowed.splitlines() if "NOPASSWD" in line] == [f'(root) NOPASSWD: {VIEWER} ""']
    for argv in ([HELPER], [VIEWER, "x"], ["sh", "-c", "id"], ["systemctl", "restart", site.unit], ["-E", VIEWER, "-"]):
        done = site.guest.ssh(["sudo", "-n", *argv], b"{}", user="eve", check=False)
        assert done.returncode, argv
        assert not done.stdout, argv
    # Nothing that a login sets reaches the program that root runs.
    set_by_eve = {"PYTHONPATH": "/home/eve", "PYTHONSTARTUP": "/home/eve/x.py", "LD_PRELOAD": "/home/eve/x.so"}
    site.guest.ssh(["sh", "-c", "echo 'raise SystemExit(\"taken over\")' | tee x.py json.py"], user="eve")
    words = ["env", *(f"{name}={value}" for name, value in set_by_eve.items()), "sudo", "-n", VIEWER]
    request = b'{"proto": 1, "verb": "hello", "unit": null}'
    done = site.guest.ssh(["sh", "-c", shlex.join(words)], request, user="eve", check=False)
    assert json.loads(done.stdout)["ok"], done.stderr


def test_each_verb_that_changes_something_is_refused_and_each_other_answered(site: Site) -> None:
    guest, unit = site.guest, site.unit
    before, pid = snapshot(guest), guest.show("MainPID", unit)
    for verb in sorted(set(helper.VERBS) - helper.READING):
        answer = _ask(guest, VIEWER, verb, unit, op="0001-x", owner=OWNER)
        assert (answer["ok"], answer["cause"]) == (False, "read_only"), (verb, answer)
    stable = _ask(guest, VIEWER, "state", unit)["stable"]["release"]
    fields = {"release": {"sha": stable}, "who": {"since": 0.0}, "golden": {"release": stable}}
    for verb in sorted(helper.READING):
        answer = _ask(guest, VIEWER, verb, None if verb in helper.WITHOUT_UNIT else unit, **fields.get(verb, {}))
        assert answer["ok"] or answer["cause"] != "read_only", (verb, answer)
    assert changes(before, snapshot(guest)) == []
    assert guest.show("MainPID", unit) == pid


def test_ddtune_looks_through_it_and_refuses_every_change(site: Site, eve: Operator) -> None:
    before, pid = snapshot(site.guest), site.guest.show("MainPID", site.unit)
    status = eve.run("status", HOST, "--json")
    assert status.json["service"]["profile"] == "b8-nvls"
    assert eve.run("history", HOST, "--json").json["history"][0]["event"] == "adopted"
    rights = next(one for one in eve.run("doctor", HOST, "--json").json["symptoms"] if one["name"] == "root")
    assert (rights["ok"], rights["cost"]) == (None, "this login can look and change nothing"), rights
    assert eve.run("adopt", HOST, "--json").json["already"]
    for words in CHANGES:
        answer = eve.run(*words, "--json")
        assert answer.code == 7, (words, answer)
        assert "Traceback" not in answer.err
    assert changes(before, snapshot(site.guest)) == []
    assert site.guest.show("MainPID", site.unit) == pid


# What is done as root, what undoes it, and what is said of it.
WEAK = (
    (f"chmod 646 {PYZ}", f"chmod 644 {PYZ}", f"{PYZ} can be written by others"),
    (
        f"chown ops {LIB}/1/install.json",
        f"chown root {LIB}/1/install.json",
        f"{LIB}/1/install.json belongs to user 1500",
    ),
    (f"chmod 777 {LIB}", f"chmod 755 {LIB}", f"{LIB} can be written by others"),
    (f"chown ops {LIB}/1", f"chown root {LIB}/1", f"{LIB}/1 belongs to user 1500"),
    (f"chown ops {VIEWER}", f"chown root {VIEWER}", f"{VIEWER} belongs to user 1500"),
    ("chmod 757 /usr/bin", "chmod 755 /usr/bin", "/usr/bin can be written by others"),
    (
        "chown ops /usr/bin/journalctl",
        "chown root /usr/bin/journalctl",
        "/usr/bin/journalctl belongs to user 1500, who could change what runs as root",
    ),
    (f"chown ops {JSON}", f"chown root {JSON}", "json/__init__.py belongs to user 1500"),
    ("chmod 777 /var/lib/ddtune", "chmod 755 /var/lib/ddtune", "/var/lib/ddtune can be written by others"),
    (f"echo 'eve ALL=(root) NOPASSWD: {VIEWER}' >>{SUDOERS}", f"sed -i '$d' {SUDOERS}", "allows more than the helper"),
)


def test_each_hello_says_what_others_could_change(site: Site) -> None:
    asked = ((HELPER, "ops"), (VIEWER, "eve"))
    assert all(_ask(site.guest, program, "hello", None, user)["problems"] == [] for program, user in asked)
    site.guest.console(["sh", "-c", " && ".join(break_ for break_, _, _ in WEAK)])
    try:
        told = [_ask(site.guest, program, "hello", None, user)["problems"] for program, user in asked]
        doctor = site.operator.run("doctor", HOST, "--json")
    finally:
        site.guest.console(["sh", "-c", " && ".join(mend for _, mend, _ in WEAK)])
    assert doctor.code == 9, doctor
    told.append([symptom["seen"] for symptom in doctor.json["symptoms"] if symptom["ok"] is False])
    for problems in told:
        for _, _, says in WEAK:
            assert any(says in problem for problem in problems), (says, problems)
    assert all(_ask(site.guest, program, "hello", None, user)["problems"] == [] for program, user in asked)


def test_a_path_that_sudo_hands_on_is_worth_nothing(site: Site) -> None:
    """Where the programs are gone the helper clears away by ``rmdir``, which must not be eve's."""
    guest = site.guest
    guest.put("/etc/sudoers.d/zz-path", "Defaults !secure_path\n", "440")
    guest.console(["mv", PYZ, f"{PYZ}.away"])
    try:
        made = "mkdir -p ~/bin && printf '#!/bin/sh\\nid -u >/home/eve/taken\\n' >~/bin/rmdir && chmod 755 ~/bin/rmdir"
        guest.ssh(["sh", "-c", made], user="eve")
        asked = f"echo '{{}}' | PATH=/home/eve/bin:$PATH sudo -n {VIEWER}"
        answer = json.loads(guest.out(["sh", "-c", asked], user="eve"))
        assert answer["cause"] == "not_adopted"
        assert guest.console(["test", "-e", "/home/eve/taken"], check=False).returncode
    finally:
        guest.console(["mv", f"{PYZ}.away", PYZ])
        guest.console(["rm", "/etc/sudoers.d/zz-path"])


def test_an_interpreter_of_somebody_elses_is_not_taken(site: Site, tmp_path: Path) -> None:
    """It is configured, and ops owns its folder: the programs go on with one that root alone can change."""
    guest, asked = site.guest, "/opt/ops/bin/python3"
    before = guest.out(["cat", f"{LIB}/1/install.json"])
    guest.console(
        ["sh", "-c", "mkdir -p /opt/ops/bin && ln -s /usr/bin/python3 /opt/ops/bin/ && chown ops /opt/ops/bin"]
    )
    other = Operator(guest, tmp_path / "other", ssh="ops@127.0.0.1", python=asked)
    script = other.run("adopt", HOST, "--print-installer")
    assert f"{asked} -I" in script.out, script
    said = guest.console(["sh", "-s"], script.out.encode()).stdout.decode()
    note = f"ddtune's programs run with /usr/bin/python3 and not with {asked}: /opt/ops/bin belongs to user 1500"
    assert note in said, said
    assert guest.out(["cat", f"{LIB}/1/install.json"]) == before
    guest.console(["rm", "-r", "/opt/ops"])


@pytest.mark.parametrize(
    ("break_", "mend", "says"),
    [
        (f"chmod 442 {SUDOERS}", f"chmod 440 {SUDOERS}", f"{SUDOERS} can be written by others"),
        (f"chown ops {SUDOERS}", f"chown root {SUDOERS}", f"{SUDOERS} belongs to user 1500"),
    ],
)
def test_a_sudoers_file_that_others_own_is_named_and_worth_nothing(
    site: Site, eve: Operator, break_: str, mend: str, says: str
) -> None:
    """sudo itself does not read such a file, so only root is left to be told."""
    site.guest.console(["sh", "-c", break_])
    try:
        request = b'{"proto": 1, "verb": "hello", "unit": null}'
        problems = json.loads(site.guest.console([HELPER], request).stdout)["problems"]
        assert any(says in problem for problem in problems), problems
        answer = eve.run("restart", HOST, "--yes", "--json")
        assert answer.code == 7, answer
        assert "NOPASSWD" in answer.json["error"]["message"]
    finally:
        site.guest.console(["sh", "-c", mend])
