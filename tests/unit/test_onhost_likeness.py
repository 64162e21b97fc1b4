"""What a process has that its unit does not give it, read from real processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddtune.onhost import likeness
from ddtune.onhost.inspect_process import read_process
from ddtune.onhost.paths import Install, UnitPaths

UNIT = {
    "Id": "a.service", "Transient": "no", "User": "", "Group": "", "SupplementaryGroups": "", "Nice": "0",
    "CPUSchedulingPolicy": "0", "PrivateNetwork": "no", "StandardOutput": "journal", "StandardError": "inherit",
}  # fmt: skip


@contextlib.contextmanager
def running(*argv: str, stdout: int | None = None) -> Iterator[int]:
    """The pid of ``argv sleep 60``, which ends with the block."""
    with subprocess.Popen([*argv, "sleep", "60"], stdout=stdout, stderr=stdout) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def became(pid: int, name: str) -> None:
    """Returns when ``pid`` is ``name``: what comes before it execs into it."""
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}/comm").read_text().strip() != name or read_process(pid) is None:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_what_a_wrapper_does_to_the_process_is_named_as_the_unit_would_say_it(tmp_path: Path) -> None:
    with (tmp_path / "kimi.log").open("w") as log, running("nice", "-n", "7", stdout=log.fileno()) as pid:
        became(pid, "sleep")
        found = likeness.other_acts(pid, UNIT)
        assert f"Nice={os.nice(0) + 7}" in found
        assert f"StandardOutput=append:{log.name}" in found
        assert f"StandardError=append:{log.name}" in found
        told = {**UNIT, "Nice": str(os.nice(0) + 7), "StandardOutput": f"append:{log.name}"}
        assert likeness.other_acts(pid, told) == []


def test_output_that_goes_to_another_program_is_named() -> None:
    with running(stdout=subprocess.PIPE) as pid:
        became(pid, "sleep")
        (out, error) = [line for line in likeness.other_acts(pid, UNIT) if line.startswith("Standard")]
        assert "it writes to pipe:" in out
        assert "it writes to pipe:" in error


def test_another_policy_is_named() -> None:
    with running("chrt", "--batch", "0") as pid:
        became(pid, "sleep")
        assert "CPUSchedulingPolicy=batch" in likeness.other_acts(pid, UNIT)
        assert not [one for one in likeness.other_acts(pid, {**UNIT, "CPUSchedulingPolicy": "3"}) if "Policy" in one]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, None),
        ({"StandardOutput": "append:/x.log"}, "StandardOutput=append:/x.log"),
        ({"StandardOutput": "journal", "LogNamespace": "llm"}, "LogNamespace=llm"),
    ],
)
def test_output_that_ddtune_does_not_read_is_named(changes: dict[str, str], named: str | None) -> None:
    assert likeness.output({**UNIT, **changes}) == named


def test_the_user_is_that_of_the_unit() -> None:
    pid, own = os.getpid(), str(os.geteuid())
    ids = likeness.owner(pid)
    assert ids is not None
    assert ids[:2] == (os.geteuid(), os.getegid())
    assert likeness.other_user(pid, {"User": own, "Group": str(os.getegid())}) is None
    assert "User=" in (likeness.other_user(pid, {"User": "nobody"}) or "")
    assert likeness.other_user(pid, {"User": "no-such-user"}) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [({}, None), ({"Id": "b.service"}, "another name of b.service"), ({"Transient": "yes"}, "made by systemd-run")],
)
def test_a_unit_is_one_of_its_own(changes: dict[str, str], words: str | None) -> None:
    found = likeness.other_unit("a.service", {**UNIT, **changes})
    assert found is None if words is None else words in (found or "")


def test_the_launcher_is_seen_and_the_program_is_there(tmp_path: Path) -> None:
    paths = UnitPaths(str(tmp_path), "a.service")
    install = Install(root=str(tmp_path), python="/usr/bin/env", pyz=f"{tmp_path}/lib/x.pyz")
    with running() as pid:
        became(pid, "sleep")
        process = read_process(pid)
        assert process is not None
        assert likeness.no_start(install, paths, UNIT, process) is None
        gone = install._replace(python=f"{tmp_path}/gone")
        assert f"does not see {tmp_path}/gone" in (likeness.no_start(gone, paths, UNIT, process) or "")
    with running("bash", "-c", 'exec -a kimi "$@"', "-") as pid:
        became(pid, "sleep")
        process = read_process(pid)
        assert process is not None
        assert "begins with 'kimi'" in (likeness.no_start(install, paths, UNIT, process) or "")
