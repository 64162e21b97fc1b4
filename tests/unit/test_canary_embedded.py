"""``ddtune canary`` through the whole product, on an embedded host: by the host's helper, kept, and said in plans."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tui.embedded import ROOT, serving

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with serving(100, DDTUNE_SIM_TRAFFIC="0") as name:
        yield name


def ddtune(*words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "ddtune.cli.main", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    return done.returncode, done.stdout


def asked(*words: str) -> tuple[int, dict[str, Any]]:
    code, text = ddtune(*words, "--json")
    return code, dict(json.loads(text))


def test_the_canary_says_each_budget_touches_nothing_and_stands_in_the_plan(host: str) -> None:
    before = asked("status", host)[1]["service"]
    code, said = asked("canary", host, "--budgets", "8,16", "--batch", "1,2")
    assert (code, said["verdict"], said["recorded"], said["simulated"]) == (9, "crash", True, True)
    assert (said["unit"], said["backend"], said["xids"]) == (before["unit"], "triton", [])
    sound, crash = said["budgets"]["8"], said["budgets"]["16"]
    assert (sound["verdict"], sound["cases"], sound["reason"]) == (
        *("sound", 2),
        "2 cases: eager is right and each replay equal to it",
    )
    assert (crash["verdict"], crash["cases"]) == ("crash", 1), "a budget that crashed is not tried again"
    assert "illegal memory access" in crash["reason"]

    plan = asked("switch", host, "b16", "--dry-run")[1]["canary"]
    assert (plan["budget"], plan["verdict"], plan["reason"]) == (16, "crash", crash["reason"])

    code, text = ddtune("canary", host, "--budgets", "8")
    head, where, _, line, *rest = text.splitlines()
    assert code == 0
    assert head.split() == [host, before["unit"], "attention", "triton", "(simulated)"]
    assert where == f"{said['kernel']} on {said['gpu']['name']}"
    assert line.split(maxsplit=2) == ["8", "sound", sound["reason"]]
    assert rest[-1] == f"Not covered: {'; '.join(said['not_covered'])}."

    after = asked("status", host)[1]["service"]
    assert [after[key] for key in ("main_pid", "invocation")] == [before[key] for key in ("main_pid", "invocation")]
