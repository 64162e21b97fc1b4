"""The unit's own files: what counts of them, in which order, what is kept, and what a change means for a switch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddtune.onhost import outside, unit_environment, unit_files
from ddtune.onhost.paths import UnitPaths
from ddtune.onhost.unit_files import Change
from tests.unit.onhost_helper.host import OWNER, UNIT, Host, wait_until

OP = "20261129185959-abc"
TEXT = """\
[Unit]
Description=An engine
[Service]
Environment=A=1 B=2
Environment=TOKEN_OF=sk-4711
ExecStart=/opt/engine \\
  # said between
  --port 1
User=sglang
"""
SAME = """\
# Written by somebody else
[Unit]
Description = An engine

[Service]
; in another order
User=sglang
ExecStart=/opt/engine \\
  --port 1
Environment=A=1 B=2
Environment=TOKEN_OF=sk-4711
"""


class Disk:
    """Unit files below a root, as a systemd has read them that was reloaded at the last ``reload``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = UnitPaths(str(root), UNIT)
        os.makedirs(self.paths.state)
        self.props = {"FragmentPath": self.path(f"etc/systemd/system/{UNIT}"), "DropInPaths": ""}
        self.write(f"etc/systemd/system/{UNIT}", TEXT)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def write(self, name: str, text: str) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def changed(self) -> list[str]:
        return [change.text.replace(f"{self.root}/", "") for change in unit_files.changed(self.paths, self.props)]

    def keep(self) -> None:
        unit_files.keep(self.paths, self.props)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    # What lies above the test's own folder is nobody else's to enter.
    stat = os.stat
    above = {str(folder) for folder in tmp_path.parents} | {str(tmp_path)}
    opened = os.stat_result((0o40755, *stat("/")[1:]))
    monkeypatch.setattr(os, "stat", lambda path, **how: opened if str(path) in above else stat(path, **how))
    made = Disk(tmp_path)
    made.keep()
    return made


FILE = f"etc/systemd/system/{UNIT}"
DROP_IN = f"{FILE}.d/50-mine.conf"


def test_settings_are_read_as_systemd_reads_them() -> None:
    found = unit_files.settings(TEXT)
    assert found["Service.Environment"] == ["A=1 B=2", "TOKEN_OF=sk-4711"]
    assert found["Service.ExecStart"] == ["/opt/engine  --port 1"]
    assert found == unit_files.settings(SAME)


def test_comments_blanks_and_order_are_no_change(disk: Disk) -> None:
    disk.write(FILE, SAME)
    disk.write(DROP_IN, "# nothing is set here\n[Service]\n")
    assert disk.changed() == []


@pytest.mark.parametrize(
    ("was", "now", "names"),
    [
        ("A=1 B=2", "A=1 B=3", "Environment="),
        ("User=sglang", "User=root", "User="),
        ("User=sglang", "LimitNOFILE=1\nUser=sglang", "LimitNOFILE="),
        ("User=sglang\n", "EnvironmentFile=/x\nWorkingDirectory=/s\n", "EnvironmentFile=, User=, WorkingDirectory="),
        ("Environment=A=1 B=2\n", "", "Environment="),
    ],
)
def test_each_setting_that_differs_is_named(disk: Disk, was: str, now: str, names: str) -> None:
    disk.write(FILE, TEXT.replace(was, now))
    assert disk.changed() == [f"{FILE} was edited ({names})"]


def test_the_order_of_one_settings_values_counts(disk: Disk) -> None:
    one, other = "Environment=A=1 B=2\n", "Environment=TOKEN_OF=sk-4711\n"
    disk.write(FILE, TEXT.replace(one + other, other + one))
    assert disk.changed() == [f"{FILE} was edited (Environment=)"]


def test_files_come_and_go(disk: Disk) -> None:
    disk.write(DROP_IN, "[Service]\nNice=5\n")
    assert disk.changed() == [f"{DROP_IN} was added (Nice=)"], "also before systemd has read it"
    disk.props["DropInPaths"] = disk.path(DROP_IN)
    disk.keep()
    assert disk.changed() == []
    Path(disk.path(DROP_IN)).unlink()
    assert disk.changed() == [f"{DROP_IN} was removed (Nice=)"]
    disk.props["DropInPaths"] = ""
    assert disk.changed() == [f"{DROP_IN} was removed (Nice=)"]


def test_files_stand_in_systemds_order_and_the_nearer_folder_wins(disk: Disk) -> None:
    elsewhere = disk.write("etc/systemd/system/service.d/20-all.conf", "[Service]\nNice=1\n")
    disk.write(f"usr/lib/systemd/system/{UNIT}.d/10-package.conf", "[Service]\nNice=2\n")
    mine = disk.write(f"etc/systemd/system/{UNIT}.d/10-package.conf", "[Service]\nNice=3\n")
    last = disk.write(f"run/systemd/system/{UNIT}.d/30-run.conf", "[Service]\nNice=4\n")
    disk.write(f"etc/systemd/system/{UNIT}.d/zz-ddtune.conf", "[Service]\nNice=5\n")
    disk.write(f"etc/systemd/system/{UNIT}.d/notes.txt", "[Service]\nNice=6\n")
    found = unit_files.files(disk.paths, disk.props["FragmentPath"], [elsewhere])
    assert found == [disk.path(FILE), mine, elsewhere, last]


def test_a_unit_file_in_a_nearer_folder_is_what_counts(disk: Disk) -> None:
    packaged = f"usr/lib/systemd/system/{UNIT}"
    os.makedirs(disk.path("usr/lib/systemd/system"))
    os.rename(disk.path(FILE), disk.path(packaged))
    disk.props["FragmentPath"] = disk.path(packaged)
    disk.keep()
    disk.write(FILE, TEXT.replace("B=2", "B=3"))
    names = "Description=, Environment=, ExecStart=, User="
    assert disk.changed() == [f"{FILE} was added ({names})", f"{packaged} was removed ({names})"]


def test_the_files_that_variables_come_from_count_as_well(disk: Disk) -> None:
    keys, more = disk.write("etc/sglang/engine.env", "A=1\nTOKEN='sk-4711'\n# said\n"), disk.path("etc/sglang/more.env")
    disk.write(FILE, f"{TEXT}EnvironmentFile={keys}\nEnvironmentFile=-{more}\n")
    disk.keep()
    assert "sk-4711" not in Path(disk.paths.unit_files).read_text()
    assert not unit_files.touched(disk.paths)
    disk.write("etc/sglang/engine.env", 'TOKEN="sk-4711"\n\nA=1\n')
    assert unit_files.touched(disk.paths)
    assert disk.changed() == [], "the same variables"
    disk.write("etc/sglang/engine.env", "A=2\nTOKEN=sk-4711\nB=1\n")
    assert disk.changed() == ["etc/sglang/engine.env was edited (A=, B=)"]
    disk.keep()
    disk.write("etc/sglang/more.env", "C=1\n")
    assert unit_files.touched(disk.paths)
    assert disk.changed() == ["etc/sglang/more.env was added (C=)"], "one that may be missing came"
    assert [one.text for one in unit_files.Look(disk.paths).changed()] == [f"{more} was added (C=)"]
    disk.keep()
    os.unlink(keys)
    assert disk.changed() == ["etc/sglang/engine.env was removed (A=, B=, TOKEN=)"]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["/etc/a", "-/etc/b", "/etc/a"], ["/etc/a", "/etc/b"]),
        (["/etc/a", "", "/etc/b"], ["/etc/b"]),
        (
            ["/etc/%i.env", "/etc/%p-%N/%n", "/etc/100%%"],
            ["/etc/8.env", "/etc/sglang-sglang@8/sglang@8.service", "/etc/100%"],
        ),
        (["%h/env", "/etc/%", "relative", "/run/made-at-start.env", "-/var/run/x"], []),
    ],
)
def test_files_of_variables_are_those_that_systemd_reads(values: list[str], found: list[str]) -> None:
    assert unit_environment.files("sglang@8.service", [{"Service.EnvironmentFile": values}]) == found


def test_a_touch_is_seen_without_reading(disk: Disk) -> None:
    assert not unit_files.touched(disk.paths)
    for name, text in ((FILE, SAME), (DROP_IN, "[Service]\nNice=5\n")):
        disk.write(name, text)
        assert unit_files.touched(disk.paths)
        disk.keep()
        assert not unit_files.touched(disk.paths)
    os.unlink(disk.path(DROP_IN))
    assert unit_files.touched(disk.paths)


def test_without_what_was_kept_nothing_is_changed(disk: Disk) -> None:
    disk.write(FILE, TEXT.replace("B=2", "B=3"))
    os.unlink(disk.paths.salt)
    assert disk.changed() == []
    os.unlink(disk.paths.unit_files)
    assert disk.changed() == []


def test_no_value_is_kept_and_none_can_be_guessed(disk: Disk) -> None:
    """The same file on another host has other hashes, and a file that not everybody may read has none without salt."""
    os.chmod(disk.path(FILE), 0o640)
    disk.keep()
    text = Path(disk.paths.unit_files).read_text()
    assert "sk-4711" not in text
    assert "/opt/engine" not in text
    (first,) = json.loads(text)["files"]
    assert first["public"] is None
    os.unlink(disk.paths.salt)
    disk.keep()
    (second,) = json.loads(Path(disk.paths.unit_files).read_text())["files"]
    assert not set(first["settings"].values()) & set(second["settings"].values())


@pytest.mark.parametrize("closed", ["etc/systemd", f"{FILE}.d", DROP_IN])
def test_what_not_everybody_may_read_has_no_hash_without_salt(disk: Disk, closed: str) -> None:
    disk.write(DROP_IN, "[Service]\nEnvironment=PIN=1234\n")
    disk.keep()
    assert all(one["public"] for one in json.loads(Path(disk.paths.unit_files).read_text())["files"])
    (disk.root / closed).chmod(0o700)
    disk.keep()
    assert json.loads(Path(disk.paths.unit_files).read_text())["files"][-1]["public"] is None
    disk.write(DROP_IN, "[Service]\nEnvironment=PIN=1235\n")
    assert disk.changed() == [f"{DROP_IN} was edited (Environment=)"]


def test_who_may_not_read_the_salt_sees_which_files(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_files.releases, "known_salt", lambda _: None)
    look = unit_files.Look(disk.paths)
    seen = lambda: [change.text.replace(f"{disk.root}/", "") for change in look.changed()]  # noqa: E731 (asked often)
    assert seen() == []
    disk.write(FILE, SAME)
    assert seen() == []
    disk.write(FILE, TEXT.replace("B=2", "B=3"))
    disk.write(DROP_IN, "[Service]\nNice=5\n")
    assert seen() == [f"{FILE} was edited", f"{DROP_IN} was added"]
    disk.keep()
    assert seen() == []
    os.unlink(disk.path(DROP_IN))
    assert seen() == [f"{DROP_IN} was removed"]
    os.unlink(disk.path(FILE))
    assert seen() == [f"{FILE} was removed", f"{DROP_IN} was removed"]


def test_who_may_read_the_salt_sees_the_settings_too(disk: Disk) -> None:
    look = unit_files.Look(disk.paths)
    os.chmod(disk.path(FILE), 0o600)
    assert look.changed() == []
    disk.write(FILE, TEXT.replace("B=2", "B=3"))
    assert [(one.what, one.settings) for one in look.changed()] == [("edited", ("Environment",))]


def test_what_runs_has_it_or_will() -> None:
    edited = Change("/x", "edited", ("Nice",), 100.0)
    gone = Change("/y", "removed", (), None)
    assert outside.sentence("u", [edited], 200.0, unread=False).endswith(
        "/x was edited (Nice=): what runs was started since"
    )
    assert outside.sentence("u", [edited], 50.0, unread=False).endswith("its next start will have it")
    assert outside.sentence("u", [edited, gone], 200.0, unread=False).endswith("its next start will have it")
    assert outside.sentence("u", [edited], 200.0, unread=True).endswith("(systemctl daemon-reload)")


def _edit(host: Host, was: str, now: str) -> str:
    path = host.file(FILE)
    path.write_text(path.read_text().replace(was, now))
    host.systemctl("daemon-reload")
    return str(path)


def test_a_switch_is_refused_until_the_change_is_taken(host: Host) -> None:
    host.adopted()
    sha = host.put("--speculative-ddtree-budget", "16")
    assert host.ok("inspect")["outside"] is None
    path = _edit(host, "TOPK=4", "TOPK=8")
    told = host.ok("inspect")["outside"]
    assert told["files"] == [{"path": path, "what": "edited", "settings": ["Environment"]}]
    for kind in ("switch", "golden"):
        answer = host.arm(sha, kind=kind)
        assert answer["cause"] == "drift"
        assert f"{path} was edited (Environment=): its next start will have it" in answer["message"]
        assert "ddtune adopt --upgrade takes the files as they are" in answer["message"]
        assert answer["detail"]["files"] == told["files"]
    assert host.ok("accept", owner=OWNER) == {"proto": 1, "ok": True, "files": told["files"], "first": False}
    assert host.ok("accept", owner=OWNER)["files"] == [], "asked again it has nothing to take"
    line = host.ok("state")["history"][-1]
    assert (line["event"], line["owner"]["who"]) == ("unit_changed", "ada")
    assert line["text"] == f"taken as they are now: {path} was edited (Environment=)"
    assert host.ok("inspect")["outside"] is None
    assert host.arm(sha)["ok"]
    cause, message = host.refused("accept")
    assert (cause, "is running" in message) == ("busy", True)


def test_nothing_of_it_stops_a_way_back(host: Host) -> None:
    """Edited while a transaction runs it is told at once; the way back to stable is open, and open anew."""
    stable = host.adopted()
    sha = host.put("--speculative-ddtree-budget", "16")
    assert host.arm(sha)["ok"]
    path = _edit(host, "TOPK=4", "TOPK=8")
    assert path in host.ok("inspect")["outside"]["text"]
    host.ok("abort", op=OP)
    wait_until("it is over", lambda: host.ok("state")["txn"]["settled"], 60)
    assert host.ok("state")["stable"]["release"] == stable
    for number, kind in enumerate(("restart", "rollback")):
        op = f"2026112918000{number}-abc"
        assert host.arm(stable, op=op, kind=kind)["ok"], kind
        host.ok("abort", op=op)
        wait_until("it is over", lambda: host.ok("state")["txn"]["settled"], 60)
    assert host.ok("unadopt", owner=OWNER)["running"] is not None
    assert "TOPK=8" in Path(path).read_text(), "somebody's edit is theirs"


def test_an_edit_between_arm_and_stop_is_not_judged_along(host: Host) -> None:
    host.adopted()
    assert host.arm(host.put("--speculative-ddtree-budget", "16"))["ok"]
    before = host.invocation()
    path = _edit(host, "[Service]", "# with a remark\n[Service]")
    added = host.file(FILE).with_name(f"{UNIT}.d") / "50-mine.conf"
    added.write_text("[Service]\nLimitNOFILE=5\n")
    cause, message = host.refused("swap", op=OP)
    assert cause == "drift"
    assert f"{added} was added (LimitNOFILE=)" in message
    assert path not in message.replace(str(added), "")
    host.ok("fail", op=OP, cause=cause, evidence=[{"text": message}])
    wait_until("it is over", lambda: host.ok("state")["txn"]["settled"], 60)
    state = host.ok("state")
    assert (state["txn"]["state"], host.invocation(), state["quarantine"]) == ("ROLLED_BACK", before, [])
    assert state["history"][-1]["text"] == message


def test_an_adoption_of_before_shows_no_change_until_it_is_taken_once(host: Host) -> None:
    host.adopted()
    host.state_file("unit-files.json").unlink()
    _edit(host, "TOPK=4", "TOPK=8")
    assert host.ok("inspect")["outside"] is None
    assert host.arm(host.put("--speculative-ddtree-budget", "16"))["ok"]
    host.ok("abort", op=OP)
    wait_until("it is over", lambda: host.ok("state")["txn"]["settled"], 60)
    assert host.ok("accept") == {"proto": 1, "ok": True, "files": [], "first": True}
    _edit(host, "TOPK=8", "TOPK=4")
    assert host.ok("inspect")["outside"]["files"]
