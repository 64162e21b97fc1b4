"""Who could change what root runs: each folder and link on the way to it, in every spelling."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ddtune.onhost import interpreter, trusted
from ddtune.onhost.context import RefusalError
from tests.unit.onhost_helper.host import Host

# As /etc/alternatives does it: the name that is run is a link to a link.
NAMED, REAL = "usr/bin/python", "opt/py/bin/python3.11"
OTHER = 12345


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("usr/bin", "etc/alternatives", "opt/py/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in sorted(tmp_path.rglob("*")):
        folder.chmod(0o755)
    (tmp_path / REAL).touch(0o755)
    (tmp_path / NAMED).symlink_to("../../etc/alternatives/python")
    (tmp_path / "etc/alternatives/python").symlink_to(tmp_path / REAL)
    return tmp_path


def judged(tree: Path) -> list[str]:
    return trusted.judged([str(tree / NAMED)], str(tree))


def test_what_is_roots_alone_is_not_named(tree: Path) -> None:
    assert judged(tree) == []
    assert trusted.judged([str(tree / "opt/none/here")], str(tree)) == [], "what is not there is no interpreter"


@pytest.mark.parametrize(
    "step", ["usr", "usr/bin", "etc", "etc/alternatives", "opt", "opt/py", "opt/py/bin", REAL], ids=lambda step: step
)
def test_each_step_in_each_spelling_counts(tree: Path, step: str) -> None:
    (tree / step).chmod(0o757)
    (said,) = judged(tree)
    assert said.startswith(f"{tree / step} can be written by others than its owner: chmod go-w {tree / step}")
    assert f"root runs {tree / NAMED}" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("step", ["opt/py", REAL, NAMED, "etc/alternatives/python"], ids=lambda step: step)
def test_whose_they_are_counts_of_links_too(tree: Path, step: str) -> None:
    os.chown(tree / step, OTHER, -1, follow_symlinks=False)
    (said,) = judged(tree)
    assert said.startswith(f"{tree / step} belongs to user {OTHER}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_group_counts_unless_it_is_roots_own(tree: Path) -> None:
    (tree / "opt/py").chmod(0o2775)
    assert judged(tree) == []
    os.chown(tree / "opt/py", 0, OTHER)
    assert "opt/py can be written by others" in judged(tree)[0]


def test_a_folder_of_everybodys_is_fine_where_nobody_can_rename_anothers(tree: Path) -> None:
    (tree / "opt").chmod(0o1777)
    assert judged(tree) == []


def test_a_list_of_access_shows_as_no_group(tree: Path) -> None:
    folder = tree / "opt/py"
    # user::rwx, user:12345:rwx, group::r-x, mask::rwx, other::r-x
    entries = ((1, 7, -1), (2, 7, OTHER), (4, 5, -1), (0x10, 7, -1), (0x20, 5, -1))
    packed = b"".join(
        tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + (who & 0xFFFFFFFF).to_bytes(4, "little")
        for tag, rights, who in entries
    )
    try:
        os.setxattr(folder, "system.posix_acl_access", (2).to_bytes(4, "little") + packed)
    except OSError:
        pytest.skip("this file system has no such lists")
    assert folder.stat().st_mode & 0o777 == 0o775
    assert "opt/py can be written by others" in judged(tree)[0]


def test_links_that_lead_round_end(tree: Path) -> None:
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    assert trusted.judged([str(tree / "a")], str(tree)) == []


def test_what_an_interpreter_loads_is_known(tmp_path: Path) -> None:
    found = trusted.loaded()
    assert {sys.executable, json.__file__, os.path.dirname(os.__file__)} <= set(found)
    assert json.__cached__ in found
    (tmp_path / "x.pth").touch()
    (tmp_path / "sitecustomize.py").touch()
    (tmp_path / "other.py").touch()
    assert sorted(trusted.at_each_start(str(tmp_path))) == [f"{tmp_path}/sitecustomize.py", f"{tmp_path}/x.pth"]


def weak_at(*bad: str) -> Callable[..., list[str]]:
    return lambda paths, below="": [f"{path} is weak" for path in paths if str(path).startswith(bad)]


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter.glob, "glob", lambda _: ["/usr/bin/python3.9", "/usr/bin/python3-config", *ALL])
    monkeypatch.setattr(interpreter, "_loads", lambda python: [f"/usr/lib/{os.path.basename(python)}"])


ALL = ["/usr/bin/python3.12", "/usr/bin/python3"]


@pytest.mark.usefixtures("usual")
@pytest.mark.parametrize(
    ("bad", "chosen"),
    [
        (("/nothing",), "/opt/py/bin/python3"),
        (("/opt",), "/usr/bin/python3"),
        (("/usr/lib/python3",), None),
        (("/opt", "/usr/bin/python3"), None),
    ],
)
def test_an_interpreter_that_others_can_change_is_not_chosen(
    monkeypatch: pytest.MonkeyPatch, bad: tuple[str, ...], chosen: str | None
) -> None:
    monkeypatch.setattr(trusted, "judged", weak_at(*bad))
    if chosen is None:
        with pytest.raises(RefusalError, match=r"is no interpreter for root: .* is weak"):
            interpreter.choose("/opt/py/bin/python3")
        return
    found = interpreter.choose("/opt/py/bin/python3")
    assert found.python == chosen
    assert (found.note is None) == (chosen == "/opt/py/bin/python3")


@pytest.mark.usefixtures("usual")
def test_the_next_best_is_taken_where_the_usual_one_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(python: str) -> list[str]:
        if python == "/usr/bin/python3":
            raise RefusalError("unknown", "older than Python 3.9")
        return []

    monkeypatch.setattr(interpreter, "_loads", loads)
    monkeypatch.setattr(trusted, "judged", weak_at("/opt"))
    assert interpreter.choose("/opt/py").python == "/usr/bin/python3.12"


def test_another_interpreter_leaves_no_drift_behind(host: Host, tmp_path: Path) -> None:
    """An installation renews the drop-ins that it wrote; one that somebody has edited stays as it is."""
    host.adopted()
    drop_in = next(host.root.glob("etc/systemd/system/*.d/zz-ddtune.conf"))
    before = drop_in.read_text()
    other = tmp_path / "python-of-another-name"
    other.symlink_to(sys.executable)
    host.constants["python"] = str(other)
    host.install()
    assert drop_in.read_text() == before.replace(sys.executable, str(other)) != before
    assert host.arm(host.put("--speculative-ddtree-budget", "16"))["ok"]


def test_an_edited_drop_in_is_not_renewed(host: Host, tmp_path: Path) -> None:
    host.adopted()
    drop_in = next(host.root.glob("etc/systemd/system/*.d/zz-ddtune.conf"))
    drop_in.write_text(edited := drop_in.read_text() + "Nice=5\n")
    other = tmp_path / "python-of-another-name"
    other.symlink_to(sys.executable)
    host.constants["python"] = str(other)
    host.install()
    assert drop_in.read_text() == edited


def test_the_helper_looks_for_nothing_on_the_path_of_who_calls_it(host: Host, tmp_path: Path) -> None:
    """Where the programs are gone the helper clears their folders away, by a program that it must not take from eve."""
    host.install()
    taken = tmp_path / "taken-over"
    for name in ("rmdir", "echo", "systemctl", "rm"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ntouch {taken}\n")
        program.chmod(0o755)
    host.file("usr/local/lib/ddtune/1/ddtune-onhost.pyz").unlink()
    old = os.environ["PATH"]
    os.environ["PATH"] = f"{tmp_path}:{old}"
    try:
        assert host.call("hello")["cause"] == "not_adopted"
    finally:
        os.environ["PATH"] = old
    assert not taken.exists()
