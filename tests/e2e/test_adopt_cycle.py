"""Adopt, drill, switch, roll back and unadopt for each kind of unit by each kind of login; then nothing is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.guest import booted, wait_until
from tests.e2e.host_files import changes, snapshot
from tests.e2e.kinds import KINDS
from tests.e2e.login import HELPER, SUDOERS, Site
from tests.e2e.operator import HOST

pytestmark = pytest.mark.timeout(900)
# The others are as long again for each kind and login: DDTUNE_MATRIX=1 runs them all.
SHORT = {("wrapper", "ops")}
WHOLE = bool(os.environ.get("DDTUNE_MATRIX"))


@pytest.mark.parametrize(
    ("kind", "login"),
    [(kind, login) for kind in KINDS for login in ("root", "ops") if WHOLE or (kind, login) in SHORT],
)
def test_a_cycle_leaves_the_host_as_it_was(tmp_path: Path, kind: str, login: str) -> None:
    with booted(tmp_path) as guest:
        site = Site(guest, tmp_path / "operator", KINDS[kind](guest), login)
        if login == "ops":
            refused = site.run("adopt", code=7)
            assert "--print-installer" in refused["error"]["message"]
            assert site.left() == []
            site.install_by_script()
        adopted = site.run("adopt")
        assert (adopted["profile"], adopted["standing"]) == ("b8-nvls", "adopted")
        assert Path(adopted["dialect_file"]).read_text() == adopted["dialect_draft"]
        assert site.untouched()
        # Whatever starts it next proves the launcher; until then everybody is told that nothing has.
        assert site.run("status")["service"]["launched"] is False
        if WHOLE:
            assert launcher(site) == (False, None, "unproven until the next restart")
        guest.console(["systemctl", "restart", site.unit])
        wait_until("the service serves", guest.ready, 60)
        assert launcher(site) == (True if login == "root" else None, True, "this start went through it")
        site.check_as_before()
        site.pid = guest.show("MainPID", site.unit)
        drilled = site.run("adopt", "--drill", "now")
        assert drilled["already"]
        assert drilled["drill"]["outcome"]["outcome"] == "committed"
        assert not site.untouched()
        site.check_as_before()
        assert site.run("switch", "b16-eager", "--yes")["outcome"] == "committed"
        assert site.run("rollback", "--yes")["to"]["profile"] == "b8-nvls"
        site.check_as_before()
        gone = site.run("unadopt")
        site.check_as_before()
        assert gone["next_start"]["differs"] in ((None,) if kind == "wrapper" else (False,))
        if login == "ops":
            assert sorted(gone["stays"]) == sorted([HELPER, SUDOERS])
            assert {line.partition(":")[0] for line in site.left()} == {HELPER, SUDOERS, os.path.dirname(HELPER)}
            guest.console(["sh", "-c", f"{gone['by_hand']} && rmdir {os.path.dirname(HELPER)}"])
        assert site.left() == []
        guest.console(["systemctl", "restart", site.unit])
        wait_until("the service serves", guest.ready, 60)
        assert guest.main_argv(site.unit) == site.argv or kind == "wrapper"


def launcher(site: Site) -> tuple[object, ...]:
    """What ``status`` and ``doctor`` say of the launcher."""
    told = {one["name"]: one for one in site.operator.run("doctor", HOST, "--json").json["symptoms"]}["launcher"]
    return site.run("status")["service"]["launched"], told["ok"], told["seen"].partition(":")[0]


def test_the_comparison_sees_what_is_planted(tmp_path: Path) -> None:
    with booted(tmp_path) as guest:
        before = snapshot(guest)
        assert changes(before, snapshot(guest)) == []
        for act in (
            ["touch", "/var/lib/planted"],
            ["chmod", "600", "/etc/hostname"],
            ["chown", "ops", "/etc/fstab"],
            ["ln", "-sfn", "/nowhere", "/etc/mtab"],
            ["sh", "-c", "echo x >>/etc/issue"],
            ["mkdir", "/run/ddtune"],
        ):
            guest.console(act)
        found = {line.partition(":")[0] for line in changes(before, snapshot(guest))}
        assert found == {"/var/lib/planted", "/etc/hostname", "/etc/fstab", "/etc/mtab", "/etc/issue", "/run/ddtune"}
