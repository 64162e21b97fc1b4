"""GPM by nvidia-smi dmon. The rows are of an H200 with driver 580.159.04 under a bf16 matrix product."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddtune.onhost import collect_dmon
from ddtune.onhost.collect_dmon import Dmon, Table
from ddtune.onhost.collect_nvml import GPM_METRICS
from ddtune.onhost.collect_smi import FIELDS, Smi

HEADING = """\
# gpu    pwr  gtemp  mtemp      gract     smutil     mmaact       dram      nvlrx      nvltx 
# Idx      W      C      C      GPM:%      GPM:%      GPM:%      GPM:%  GPM:MiB/s  GPM:MiB/s 
"""  # noqa: W291 - as it comes
FIRST = "    0     78     33     35          -          -          -          -          -          - "
LATER = "    0    689     55     44         96         93         90         15          0          0 "
READ = dict(zip(GPM_METRICS, (96.0, 93.0, 90.0, 15.0, 0.0, 0.0), strict=True))
NOTHING = dict.fromkeys(GPM_METRICS)


def table(*lines: str) -> Table:
    made = Table()
    for line in lines:
        made.take(line)
    return made


def test_rows_are_read_by_the_order_of_what_was_asked_for() -> None:
    assert table(*HEADING.splitlines(), FIRST).rows == {0: NOTHING}
    assert table(*HEADING.splitlines(), FIRST, LATER).rows == {0: READ}
    # The heading comes again after each screenful, and drivers before 580 name NVLink's columns otherwise.
    older = HEADING.replace("nvlrx", "pcitx").replace("nvltx", "pcirx").splitlines()
    assert table(*older, LATER, *older, LATER.replace("0", "1", 1)).rows == {0: READ, 1: READ}


@pytest.mark.parametrize(
    "line", ["", "# gpu", LATER[:70], "Metric value too high: 999", "Failed to process command line", "x 1 2"]
)
def test_what_is_no_row_says_nothing(line: str) -> None:
    assert table(*HEADING.splitlines(), line).rows == {}
    assert table(LATER).rows == {}, "without a heading nothing is known of the columns"
    fewer = [words.replace("      GPM:%", "", 1) for words in HEADING.splitlines()]
    assert table(*fewer, LATER).rows == {}


Program = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """An ``nvidia-smi`` whose dmon is the given script, and whose query gives GPU 0, and GPU 1 where a file says so."""
    row = ", ".join(["{}", "GPU-{}", *["1"] * (len(FIELDS) - 2)])

    def make(dmon: str) -> str:
        path = tmp_path / "nvidia-smi"
        query = f"echo '{row.format(0, 0)}'; [ ! -e {tmp_path}/second ] || echo '{row.format(1, 1)}'; sleep 0.1"
        path.write_text(f"#!/bin/sh\nif [ $1 = dmon ]; then\n{dmon}\nfi\nwhile :; do {query}; done\n")
        path.chmod(0o755)
        return str(path)

    return make


def reading(smi: Smi, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    end = time.monotonic() + 10
    while not wanted(found := smi.sample()):
        assert time.monotonic() < end, found
    return found


def test_a_query_and_dmon_make_one_reading(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = f"echo \"$@\" > {tmp_path}/asked\ncat <<'END'\n{HEADING}{FIRST}\n{LATER}\nEND\nexec sleep 60"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(collect_dmon, "_FRESH_S", 60.0)
    program(rows)
    smi = Smi(0.1)
    try:
        (gpu,) = reading(smi, lambda gpus: gpus[0].get("sm_util") is not None)
        assert {name: gpu[name] for name in GPM_METRICS} == READ
        assert gpu["power_w"] == 1.0
        json.dumps(gpu, allow_nan=False)
        assert (tmp_path / "asked").read_text().split()[:5] == ["dmon", "-s", "p", "--gpm-metrics", "1,2,5,10,60,61"]
        # Another set of GPUs: an index may mean another one now.
        (tmp_path / "second").touch()
        both = reading(smi, lambda gpus: len(gpus) == 2)
        assert not any("sm_util" in gpu for gpu in both)
    finally:
        smi.close()


def test_old_rows_are_not_shown(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_dmon, "_FRESH_S", -1.0)
    dmon = Dmon(program(f"cat <<'END'\n{HEADING}{LATER}\nEND\nexec sleep 60"))
    try:
        end = time.monotonic() + 10
        while not dmon._table.rows:
            gpu: dict[str, Any] = {"index": 0, "lost": False}
            dmon.merge([gpu])
            assert time.monotonic() < end
        assert "sm_util" not in gpu
    finally:
        dmon.close()


@pytest.mark.parametrize("script", ["echo 'Unknown option'; exit 255", "exit 0"])
def test_without_gpm_the_query_goes_on(
    script: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(script)
    smi = Smi(0.1)
    try:
        for _ in range(5):
            (gpu,) = smi.sample()
            assert gpu["power_w"] == 1.0
            assert "sm_util" not in gpu
    finally:
        smi.close()
