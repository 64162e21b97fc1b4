"""What a plan says of the gate, by what is planned."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddtune.config.model import HostConfig
from ddtune.gate.model import Verdict
from ddtune.gate.process_facts import Facts, check
from ddtune.rollout.plan import Prepared, make_plan
from ddtune.rollout.timing import Stopwatch

STABLE = "a" * 64
ARGV = ["/usr/bin/python3", "-m", "sglang.launch_server", "--model-path", "/m", "--tp-size", "8"]
SPECULATING = [*ARGV, "--speculative-algorithm", "DDTREE", "--speculative-num-draft-tokens", "8"]


class Link:
    """A helper of a host that runs its stable release."""

    config = HostConfig("b300", "b300", unit="sglang.service")
    unit = "sglang.service"

    async def call(self, verb: str, **_: Any) -> dict[str, Any]:
        release = {"argv": SPECULATING, "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}
        answers: dict[str, dict[str, Any]] = {
            "state": {
                "adopted": True,
                "site": {"dialect": "ddtree-pr29907"},
                "base": {"argv": SPECULATING, "cwd": "/"},
                "stable": {"profile": "b8", "release": STABLE, "meta": {}},
                "boottime": 100.0,
            },
            "inspect": {"argv": SPECULATING, "pid": 7, "env": {}, "matches": {"release": STABLE}},
            "release": {"release": release},
            "probe_build": {"build": "", "flags": []},
            "golden": {"golden": None},
            "check_flags": {"verdict": "accepted", "stage": None, "text": ""},
        }
        return answers[verb]


def planned(kind: str, name: str) -> Prepared:
    link: Any = Link()
    return asyncio.run(make_plan(link, kind, name, force=False, keep=False, snapshot=None, stopwatch=Stopwatch()))


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_switch_is_judged_and_soaked() -> None:
    plan = planned("switch", "ar").plan
    assert {one.stage for one in plan.checks} == {"quick", "full", "soak"}
    assert plan.soak_s > 0
    assert "accept_length" in plan.not_planned


def test_a_visit_judges_nothing_of_what_it_asks() -> None:
    plan = planned("golden", "ar").plan
    assert (plan.gate, plan.checks, plan.soak_s, dict(plan.not_planned)) == ((), (), 0.0, {})
    assert any("visit takes about" in one.text for one in plan.findings)


@pytest.mark.parametrize(
    ("flags", "count"), [("", 1), ("--tp 4 --dp 2", 8), ("--tp 8 --nnodes 2", 4), ("--tp 4 --pp-size 2", 8)]
)
def test_as_many_schedulers_are_expected_as_the_release_makes(flags: str, count: int) -> None:
    trial = planned("switch", "ar")
    release = replace(trial.release, argv=("python3", "-m", "sglang.launch_server", *flags.split()))
    expected = replace(trial, release=release).expected("i")
    assert expected.schedulers == count
    found = check(Facts(argv=release.argv, env_ok=True, invocation="i", schedulers_alive=count - 1), expected)
    assert (found.verdict, found.cause) == (Verdict.FAIL, "engine_dead")
