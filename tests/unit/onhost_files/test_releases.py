"""Releases are what their name says, or they are not started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ddtune.onhost import releases
from ddtune.onhost.paths import UnitPaths
from ddtune.profiles.model import Release

GOOD: dict[str, Any] = {
    "argv": ["/usr/bin/env", "héllo"],
    "env_set": {"B": "2", "A": "1"},
    "env_unset": ["Z", "Y"],
    "cwd": "/",
    "schema": 1,
}


@pytest.fixture
def paths(tmp_path: Path) -> UnitPaths:
    paths = UnitPaths(str(tmp_path), "u.service")
    os.makedirs(paths.releases)
    return paths


def test_host_and_operator_give_a_release_the_same_name(paths: UnitPaths) -> None:
    model = Release(tuple(GOOD["argv"]), GOOD["env_set"], tuple(GOOD["env_unset"]), GOOD["cwd"])
    assert releases.put(paths, GOOD, {"profile": "p"}) == model.sha256
    assert releases.read(paths, model.sha256)["argv"] == GOOD["argv"]
    assert os.stat(paths.release(model.sha256)).st_mode & 0o777 == 0o440


def test_a_half_written_release_is_written_again(paths: UnitPaths) -> None:
    sha = releases.put(paths, GOOD, {})
    os.chmod(paths.release(sha), 0o600)
    with open(paths.release(sha), "w", encoding="utf-8") as file:
        file.write('{"argv"')
    with pytest.raises(releases.ReleaseError):
        releases.read(paths, sha)
    assert releases.put(paths, GOOD, {}) == sha
    assert releases.read(paths, sha)


@pytest.mark.parametrize(
    "change",
    [
        {"argv": []},
        {"argv": ["/bin/a", "b\0c"]},
        {"argv": "/bin/a"},
        {"cwd": "relative"},
        {"env_set": {"A=B": "1"}},
        {"env_set": {"INVOCATION_ID": "1"}},
        {"env_unset": ["NOTIFY_SOCKET"]},
        {"env_unset": [""]},
        {"schema": 2},
    ],
)
def test_what_cannot_be_started_is_refused(paths: UnitPaths, change: dict[str, Any]) -> None:
    with pytest.raises(releases.ReleaseError):
        releases.put(paths, {**GOOD, **change}, {})


@pytest.mark.parametrize("name", ["", "..", "../../etc", "A" * 64, "a" * 63])
def test_only_a_hash_is_a_name(paths: UnitPaths, name: str) -> None:
    with pytest.raises(releases.ReleaseError):
        releases.read(paths, name)


def test_an_op_has_one_end(paths: UnitPaths) -> None:
    assert releases.add_history(paths, {"op": "a", "event": "armed"})
    assert releases.add_history(paths, {"op": "a", "event": "rolled_back"})
    assert not releases.add_history(paths, {"op": "a", "event": "committed"})
    assert releases.add_history(paths, {"op": "a", "event": "rollback_failed"})
    assert not releases.add_history(paths, {"op": "a", "event": "rollback_failed"})
    assert [line["event"] for line in releases.history(paths, 2)] == ["rolled_back", "rollback_failed"]
