"""A desk without a host: it shows recorded moments and notes what was asked of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.profiles.envelope import shipped_envelope
from ddtune.rollout.model import Plan
from ddtune.tui.catalogue import entries
from ddtune.tui.desk import UNLOCK_S, DeskError
from ddtune.tui.view import Run, View
from tests.tui.recorded import view

NAME = "b300"


class FakeDesk:
    """What the screens need of a desk. ``asked`` lists the changes that were begun."""

    def __init__(self, moment: View, *, write: bool = False, protected: bool = False, plan: Plan | None = None) -> None:
        self.config = HostConfig(NAME, "b300", protected=protected)
        self._moment = replace(moment, unlocked_s=float("inf") if write else None)
        self._plan = plan
        self._changed: Callable[[], None] = lambda: None
        self.asked: list[Any] = []
        self.retries = 0

    def start(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        changed()

    def view(self) -> View:
        return self._moment

    def move(self, **fields: Any) -> None:
        """Another moment."""
        self._moment = replace(self._moment, **fields)
        self._changed()

    @property
    def profiles(self):
        return self._moment.profiles

    @property
    def running(self) -> bool:
        return self._moment.run is not None and self._moment.run.active

    def unlock(self) -> None:
        self.move(unlocked_s=UNLOCK_S)

    def retry(self) -> None:
        self.retries += 1

    def plan(self, kind: str, profile: str | None, *, force: bool = False) -> Future[Plan]:
        self.asked.append(("plan", profile, force))
        assert self._plan is not None
        findings = tuple(replace(one, blocks=one.blocks and not force) for one in self._plan.findings)
        return done(replace(self._plan, findings=findings))

    def carry_out(self, plan: Plan) -> None:
        self.asked.append(("carry_out", plan.target.profile))
        self.move(run=Run(plan.kind, self._moment.now, plan))

    def go_back(self) -> None:
        self.asked.append("go_back")
        self.move(run=self._moment.run if self.running else Run("rollback", self._moment.now))

    def catalogue(self) -> Future[Any]:
        return done(entries(self.profiles, None, None, 0.0))

    def state(self) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(DeskError("you may not ask the helper here."))
        return future


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def moment(name: str = "live") -> View:
    """A recorded moment, by the name that its host has in tests."""
    one = view(name)
    return replace(one, snapshot=replace(one.snapshot, host=NAME), envelope=tuple(shipped_envelope()))
