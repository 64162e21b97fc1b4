"""Who acted outside of ddtune, from what a journal holds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddtune.onhost import who
from ddtune.onhost.paths import Install

UNIT = "sglang-k26.service"
SUDO = "     ops : TTY=pts/0 ; PWD=/home/ops ; USER=root ; COMMAND=/usr/bin/systemctl restart sglang-k26"


# Fields of one kind are alternatives, those of several kinds hold together, `+` begins another choice.
JOURNALCTL = """\
import json, sys
choices = [{}]
for word in sys.argv[sys.argv.index("--since") + 2:]:
    if word == "+":
        choices.append({})
    else:
        name, _, value = word.partition("=")
        choices[-1].setdefault(name, set()).add(value)
for line in open(sys.argv[0] + ".lines"):
    entry = json.loads(line)
    if any(all(entry.get(name) in values for name, values in choice.items()) for choice in choices):
        print(line, end="")
"""
OF_SUDO = {"_COMM": "sudo", "_UID": "1000", "_EXE": "/usr/bin/sudo"}
OF_SSHD = {"_COMM": "sshd", "_UID": "0", "_EXE": "/usr/sbin/sshd"}


def _journal(folder: Path, *entries: dict[str, str]) -> Install:
    """A journalctl that holds ``entries`` and matches as the real one does."""
    program = folder / "journalctl"
    program.write_text(f"#!{sys.executable}\n{JOURNALCTL}")
    program.chmod(0o755)
    lines = [json.dumps({**one, "__REALTIME_TIMESTAMP": "1000000"}) for one in entries]
    Path(f"{program}.lines").write_text("".join(f"{line}\n" for line in lines))
    return Install(journalctl=str(program))


def _install(folder: Path, sudo: list[str], sshd: list[str]) -> Install:
    """Lines of the real sudo, and of the real sshd."""
    return _journal(
        folder, *({**OF_SUDO, "MESSAGE": one} for one in sudo), *({**OF_SSHD, "MESSAGE": one} for one in sshd)
    )


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


@pytest.mark.parametrize(
    "why",
    ["command not allowed", "user NOT in sudoers", "3 incorrect password attempts", "a password is required"],
)
def test_who_was_refused_did_nothing(tmp_path: Path, why: str) -> None:
    refused = SUDO.replace("ops : TTY", f"eve : {why} ; TTY")
    assert "eve" in refused
    assert who.acted(_install(tmp_path, [refused], []), UNIT) is None
    assert "ops ran" in str(who.acted(_install(tmp_path, [SUDO, refused], []), UNIT))


@pytest.mark.parametrize("fields", ["HOST=b300 ; TTY=pts/0 ; PWD=/ ; USER=root ; GROUP=root ; ENV=A=1", "USER=root"])
def test_every_form_of_a_command_that_ran_is_read(tmp_path: Path, fields: str) -> None:
    line = f"     ops : {fields} ; COMMAND=/usr/bin/systemctl stop sglang-k26"
    assert "ops ran as root" in str(who.acted(_install(tmp_path, [line], []), UNIT))


def test_a_program_of_somebodys_own_tells_nothing(tmp_path: Path) -> None:
    accepted = "Accepted publickey for root from 10.0.0.3 port 4242 ssh2: ED25519 SHA256:x"
    forged = [
        {"_COMM": "sudo", "_UID": "1001", "_EXE": "/home/eve/sudo", "MESSAGE": SUDO},
        {"_COMM": "sudo", "_UID": "1001", "_EXE": "/usr/bin/python3", "MESSAGE": SUDO},
        {"_COMM": "sshd", "_UID": "1001", "_EXE": "/home/eve/sshd", "MESSAGE": accepted},
        {"_COMM": "sshd-session", "_UID": "1001", "_EXE": "/home/eve/sshd-session", "MESSAGE": accepted},
    ]
    assert who.acted(_journal(tmp_path, *forged), UNIT) is None
    by_root = {**forged[0], "_UID": "0"}
    assert "ops ran" in str(who.acted(_journal(tmp_path, by_root), UNIT))


def test_a_login_is_named_by_whichever_program_of_openssh_let_it_in(tmp_path: Path) -> None:
    text = "Accepted publickey for root from 10.0.0.3 port 4242 ssh2: ED25519 SHA256:x"
    newer = {"_COMM": "sshd-session", "_UID": "0", "_EXE": "/usr/lib/openssh/sshd-session", "MESSAGE": text}
    assert "root from 10.0.0.3" in str(who.acted(_journal(tmp_path, newer), UNIT))


@pytest.mark.skipif(shutil.which("journalctl") is None, reason="there is no systemd here")
def test_the_real_journalctl_takes_what_is_asked_of_it() -> None:
    for asked in (who._BY_SUDO, who._BY_SSHD):
        argv = ["journalctl", "--no-pager", "-o", "json", "-n", "1", "--since", "@1", *asked]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert "match" not in done.stderr, done.stderr
