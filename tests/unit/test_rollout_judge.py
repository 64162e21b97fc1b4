"""What the judge tells the host of a commit."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ddtune.host.errors import HelperRefused
from ddtune.rollout.judge import Judge
from ddtune.rollout.link import HostLink
from ddtune.rollout.timing import Stopwatch


class Link:
    """Keeps what is called, and refuses where it is told to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.called: list[tuple[str, dict[str, Any]]] = []

    async def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        self.called.append((verb, fields))
        if self.refuses:
            raise HelperRefused("busy", "another program works on this unit just now", {})
        return {}


@pytest.mark.parametrize("refuses", [False, True])
def test_a_commit_without_a_check_is_remembered_with_the_reason(refuses: bool) -> None:
    link = Link(refuses=refuses)
    judge = Judge(cast("HostLink", link), Stopwatch())
    why = "stable itself solves 0 of 30 coding problems"
    asyncio.run(judge.remember_left_out("0007-smol4", {"coding": why}))
    ((verb, fields),) = link.called
    assert (verb, fields["ok"]) == ("judged", True)
    assert fields["text"] == f"0007-smol4 was judged without coding ({why})"


def test_a_commit_with_every_check_needs_no_line() -> None:
    link = Link()
    asyncio.run(Judge(cast("HostLink", link), Stopwatch()).remember_left_out("0007-b16", {}))
    assert link.called == []
