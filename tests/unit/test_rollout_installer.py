"""The installer that root reads, against what it installs."""

from __future__ import annotations

import re

import pytest

from ddtune.config.model import HostConfig
from ddtune.onhost.paths import Install, Paths
from ddtune.onhost.programs import _files
from ddtune.rollout import installer
from ddtune.rollout.install import constants

CONFIG = HostConfig("b300", "b300", root="/opt/box")


def text() -> str:
    return installer.script("b300", "ops", constants(CONFIG), viewer="eve")


def listed() -> list[str]:
    return re.findall(r"^#   (/\S+)$", text(), re.M)


def test_every_file_that_is_installed_is_named() -> None:
    paths = Paths(CONFIG.root)
    files = {*_files(paths, Install(root=CONFIG.root, pyz=paths.pyz), b""), paths.sudoers}
    names = listed()
    assert [file for file in files if file not in names and not file.startswith(f"{paths.lib}/")] == []
    assert {one for one in names if one.endswith("/")} == {f"{paths.lib}/"}
    assert set(names) - {f"{paths.lib}/"} <= files


def test_the_helper_is_the_one_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Paths, "helper", property(lambda self: f"{self.root}/elsewhere/ddtune-host"))
    said = text()
    assert '#   ops ALL=(root) NOPASSWD: /opt/box/elsewhere/ddtune-host ""' in said
    assert '#   eve ALL=(root) NOPASSWD: /opt/box/elsewhere/ddtune-host-ro ""' in said
    assert f"{CONFIG.root}/elsewhere/ddtune-host" in listed()
    assert "usr/local/libexec" not in said.partition("set -eu")[0]
