"""Who acted outside of ddtune, from what a journal holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddtune.onhost import who
from ddtune.onhost.paths import Install

UNIT = "sglang-k26.service"
SUDO = "     ops : TTY=pts/0 ; PWD=/home/ops ; USER=root ; COMMAND=/usr/bin/systemctl restart sglang-k26"


def _install(folder: Path, sudo: list[str], sshd: list[str]) -> Install:
    """A journalctl that answers by the program whose lines are asked for."""
    for name, lines in (("sudo", sudo), ("sshd", sshd)):
        text = "".join(json.dumps({"MESSAGE": one, "__REALTIME_TIMESTAMP": "1000000"}) + "\n" for one in lines)
        (folder / name).write_text(text)
    program = folder / "journalctl"
    program.write_text(f'#!/bin/sh\nfor last; do :; done\ncat "{folder}/${{last#_COMM=}}"\n')
    program.chmod(0o755)
    return Install(journalctl=str(program))


def test_sudo_tells(tmp_path: Path) -> None:
    other = SUDO.replace("sglang-k26", "nginx")
    found = who.acted(_install(tmp_path, [other, SUDO, other], []), UNIT)
    assert found == "ops ran as root, by sudo: /usr/bin/systemctl restart sglang-k26"


def test_an_edit_of_the_unit_counts_and_ddtunes_own_calls_do_not(tmp_path: Path) -> None:
    edit = SUDO.replace("/usr/bin/systemctl restart sglang-k26", "/usr/bin/vim /etc/systemd/system/x.conf")
    own = SUDO.replace("/usr/bin/systemctl restart sglang-k26", "/usr/local/libexec/ddtune-host sglang-k26")
    assert "vim" in str(who.acted(_install(tmp_path, [edit, own], []), UNIT))


def test_without_sudo_the_logins_are_named(tmp_path: Path) -> None:
    logins = ["Accepted publickey for root from 10.0.0.3 port 4242 ssh2: ED25519 SHA256:x", "Connection closed"]
    found = str(who.acted(_install(tmp_path, [], logins), UNIT))
    assert "does not say who" in found
    assert "root from 10.0.0.3" in found


def test_nobody_is_invented(tmp_path: Path) -> None:
    assert who.acted(_install(tmp_path, [], []), UNIT) is None
    assert who.acted(Install(journalctl="/no/such/program"), UNIT) is None


@pytest.mark.parametrize("hostile", ["\x1b]0;x\x07", "\u202e", "--api-key sk-planted"])
def test_what_it_says_is_inert(tmp_path: Path, hostile: str) -> None:
    found = str(who.acted(_install(tmp_path, [f"{SUDO} {hostile}"], []), UNIT))
    assert "\x1b" not in found
    assert "\u202e" not in found
    assert "sk-planted" not in found
