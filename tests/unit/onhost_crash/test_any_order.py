"""Operators, systemd, the guard, time and power in any order, any program killed at any writing call."""

from __future__ import annotations

import os
import random
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.unit.onhost_crash.box import Box, Runner

LONG = bool(os.environ.get("DDTUNE_TEST_LONG"))
CUT = st.one_of(st.none(), st.none(), st.integers(0, 40))


class Host(RuleBasedStateMachine):
    """One host's life."""

    runner: ClassVar[Runner]

    def __init__(self) -> None:
        super().__init__()
        self.box = Box(self.runner)

    def teardown(self) -> None:
        try:
            self.box.recover()
        finally:
            self.box.close()

    def _ask(self, verb: str, cut: int | None, **fields: Any) -> None:
        self.box.ask(verb, cut, op=self.box.ops[-1] if self.box.ops else "20261129190000-none", **fields)

    @rule(cut=CUT, back=st.booleans())
    def arm(self, cut: int | None, back: bool) -> None:
        self.box.arm(cut, self.box.stable if back else None)

    @rule(cut=CUT, verb=st.sampled_from(["swap", "stop", "start", "renew", "ready", "soak"]))
    def drive(self, cut: int | None, verb: str) -> None:
        self._ask(verb, cut)

    @rule()
    def switch(self) -> None:
        """The way of every switch, so that what lies behind it is often reached."""
        self.box.settle_systemd()
        self.box.arm()
        for verb in ("swap", "stop", "start"):
            self._ask(verb, None)
            self.box.settle_systemd()

    @rule(cut=CUT)
    def confirm(self, cut: int | None) -> None:
        self._ask("ready", None)
        self._ask("confirm", cut, invocation=self.box.unit["invocation"])

    @rule(cut=CUT, cause=st.sampled_from(["garbage_output", "gate_inconclusive"]))
    def fail(self, cut: int | None, cause: str) -> None:
        self._ask("fail", cut, cause=cause)

    @rule(cut=CUT)
    def abort(self, cut: int | None) -> None:
        self.box.ask("abort", cut, op=None)

    @rule(cut=CUT, ok=st.booleans())
    def settle(self, cut: int | None, ok: bool) -> None:
        self._ask("settle", cut, ok=ok, cause="garbage_output")

    @rule(cut=CUT)
    def put(self, cut: int | None) -> None:
        answer = self.box.ask("put_release", cut, release=Box.release(f"r{len(self.box.ops)}"), meta={})
        self.box.candidate = answer.get("release", self.box.candidate)

    @precondition(lambda self: self.box.unit["todo"])
    @rule(cut=CUT)
    def systemd(self, cut: int | None) -> None:
        self.box.systemd(cut)

    @precondition(lambda self: self.box.unit["guard"])
    @rule(cut=CUT)
    def guard(self, cut: int | None) -> None:
        self.box.guard(cut)

    @precondition(lambda self: self.box.unit["active"] == "active")
    @rule(restarts=st.booleans())
    def crash(self, restarts: bool) -> None:
        self.box.restarts = restarts
        self.box.crash()

    @precondition(lambda self: self.box.unit["active"] == "active")
    @rule()
    def stopped_and_started_by_hand(self) -> None:
        self.box.unit.update(active="activating", asked=True, todo=["ended", "start"])

    @rule(serves=st.sampled_from(["yes", "no", "wrong"]))
    def engine(self, serves: str) -> None:
        self.box.unit["serves"] = serves

    @rule(seconds=st.sampled_from([1.0, 30.0, 70.0, 700.0, 20000.0]))
    def time_passes(self, seconds: float) -> None:
        self.box.ahead_s += seconds

    @rule(seed=st.one_of(st.none(), st.integers(0, 1000)), keeps_run=st.booleans())
    def power_cut(self, seed: int | None, keeps_run: bool) -> None:
        self.box.power_cut(None if seed is None else random.Random(seed), keeps_run)

    @invariant()
    def holds(self) -> None:
        self.box.check()


@pytest.mark.timeout(3600 if LONG else 600)
def test_any_order(runner: Runner) -> None:
    Host.runner = runner
    profile = settings(
        max_examples=2000 if LONG else 25,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # Shrinking runs the host again for minutes; the blob brings a failure back as well.
        phases=[Phase.reuse, Phase.generate],
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(Host, settings=profile)
