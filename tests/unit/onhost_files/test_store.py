"""Durable files and the lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddtune.onhost import store
from ddtune.onhost.paths import Paths, UnitPaths


def test_a_full_disk_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    store.atomic_write(str(path), b"old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(store.DiskFull):
        store.atomic_write(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lines")
    store.append_line(path, {"n": 1})
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    with pytest.raises(store.DiskFull):
        store.append_line(path, {"n": 2})
    monkeypatch.setattr(os, "write", real)
    store.append_line(path, {"n": 3})
    assert store.read_lines(path) == [{"n": 1}, {"n": 3}]


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"n": 1}\n{"n": 2')
    store.append_line(str(path), {"n": 3})
    assert store.read_lines(str(path)) == [{"n": 1}, {"n": 3}]


def test_a_link_is_moved_by_one_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = str(tmp_path / "stable")
    store.swap_link(link, "a")
    seen = []
    real = os.rename
    monkeypatch.setattr(os, "rename", lambda *args: (seen.append(os.readlink(link)), real(*args)))
    store.swap_link(link, "b")
    assert seen == ["a"]
    assert os.readlink(link) == "b"


@pytest.mark.parametrize("content", [None, b"", b"[1]", b"{", b"\xff"])
def test_what_is_no_object_reads_as_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    assert store.read_json(str(path)) is None


def test_the_lock_is_given_back_by_death_and_not_inherited(tmp_path: Path) -> None:
    paths = UnitPaths(str(tmp_path), "u.service")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys,subprocess,time;from ddtune.onhost import store;from ddtune.onhost.paths import UnitPaths\n"
            "with store.locked(UnitPaths(sys.argv[1],'u.service')):\n"
            " child=subprocess.Popen(['sleep','60']);print(child.pid,flush=True);time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        begun = time.monotonic()
        with pytest.raises(store.LockTimeoutError), store.locked(paths, 0.2):
            pass
        assert time.monotonic() - begun < 2
        holder.kill()
        holder.wait()
        with store.locked(paths, 2):
            pass
    finally:
        holder.kill()
        os.kill(child, 9)


def test_the_units_that_ddtune_has_are_those_with_a_site(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    assert paths.adopted() == []
    for name in ("b.service", "a.service", "left.service"):
        os.makedirs(paths.unit(name).state)
    for name in ("b.service", "a.service"):
        store.write_json(paths.unit(name).site, {})
    assert paths.adopted() == ["a.service", "b.service"]
