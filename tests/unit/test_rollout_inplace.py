"""What the host is told of a gate on the running service."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ddtune.gate.model import CheckResult, GateReport, Verdict
from ddtune.host.errors import HelperRefused
from ddtune.rollout.inplace import remember
from ddtune.rollout.link import HostLink


class Link:
    """Keeps what it is told; one of an older ddtune refuses fields that it does not know."""

    def __init__(self, *, older: bool = False) -> None:
        self.older = older
        self.told: list[dict[str, Any]] = []

    async def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        assert verb == "judged"
        if self.older and not set(fields) <= {"ok", "text", "owner"}:
            raise HelperRefused("unknown", "judged knows no such field", {})
        self.told.append({name: value for name, value in fields.items() if name != "owner"})
        return {}


def told(*verdicts: Verdict, older: bool = False) -> list[dict[str, Any]]:
    link = Link(older=older)
    checks = {f"c{n}": CheckResult(f"c{n}", verdict, "why") for n, verdict in enumerate(verdicts)}
    asyncio.run(remember(cast("HostLink", link), GateReport(checks), full=True))
    return link.told


@pytest.mark.parametrize("older", [False, True])
def test_a_pass_and_a_failure_are_remembered(older: bool) -> None:
    assert told(Verdict.PASS, older=older) == [{"ok": True, "text": "the whole gate passed"}]
    assert told(Verdict.INCONCLUSIVE, Verdict.FAIL, older=older) == [{"ok": False, "text": "c1: why"}]


def test_a_gate_that_could_not_finish_has_not_failed() -> None:
    assert told(Verdict.PASS, Verdict.INCONCLUSIVE) == [{"ok": False, "inconclusive": True, "text": "c1: why"}]
    assert told(Verdict.INCONCLUSIVE, older=True) == []


def test_nothing_judged_is_nothing_remembered() -> None:
    assert told() == []
