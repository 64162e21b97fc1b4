"""Two operators: a plan that waited for its yes while the other one committed changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddtune.config.model import HostConfig, Limits
from ddtune.onhost import arming, ledger, releases
from ddtune.onhost import txn as t
from ddtune.onhost.context import RefusalError
from ddtune.rollout.arm import arm
from ddtune.rollout.errors import Refused
from ddtune.rollout.model import ReleaseRef
from tests.unit.onhost_guard.fake import Bench

PLANNED = ReleaseRef("b8-nvls", "a" * 64)


class Link:
    """A host on which ``stable`` is stable when it arms."""

    config = HostConfig(name="b300", ssh="b300", write=True)

    def __init__(self, stable: str) -> None:
        self.stable = stable
        self.asked: list[tuple[str, str]] = []

    async def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        self.asked.append((verb, fields["op"]))
        return {"txn": {"op": fields["op"], "stable": self.stable, "stable_profile": "b16"}}


def _arm(link: Link) -> dict[str, Any]:
    plan = SimpleNamespace(kind="restart", traffic="open", stable=PLANNED)
    prepared: Any = SimpleNamespace(op="0007-b8-nvls", plan=plan, force=False)
    host: Any = link
    return asyncio.run(arm(host, prepared, Limits(), PLANNED.release, None))


def test_a_plan_of_a_host_that_is_no_more_is_given_up_before_anything_is_stopped() -> None:
    """Else a restart, asked for when b8-nvls was stable, would take back the other operator's b16 without a word."""
    link = Link("b" * 64)
    with pytest.raises(Refused, match="b16 has become the stable release of b300") as caught:
        _arm(link)
    assert caught.value.cause == "busy"
    assert "b8-nvls" in caught.value.message
    assert link.asked == [("arm", "0007-b8-nvls"), ("abort", "0007-b8-nvls")]
    same = Link(str(PLANNED.release))
    assert _arm(same)["txn"]["op"] == "0007-b8-nvls"
    assert [verb for verb, _ in same.asked] == ["arm"]


def test_no_commit_comes_between_the_look_at_stable_and_the_arm(tmp_path: Path) -> None:
    """What is stable is read before the lock is taken: a transaction of the old one would lead back to it."""
    bench = Bench(tmp_path / "root")
    bench.arm()
    txn = ledger.load(bench.paths)
    assert txn is not None
    bench.apply(lambda at: t.Abort(at, None))
    mine = replace(txn, op="mine", armed_at=0.0, lease_until=60.0, confirm_deadline=100.0)
    releases.set_stable(bench.paths, bench.candidate)
    with pytest.raises(RefusalError, match="became stable") as caught:
        ledger.apply(bench.paths, lambda at: arming.event(bench.paths, mine, at))
    assert caught.value.cause == "busy"
    found = ledger.load(bench.paths)
    assert found is not None
    assert found.op == "op"
    releases.set_stable(bench.paths, bench.stable)
    done = ledger.apply(bench.paths, lambda at: arming.event(bench.paths, mine, at))
    assert done.refused is not None or (done.txn is not None and done.txn.op == "mine")
