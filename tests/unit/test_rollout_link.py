"""A call that a dead link swallowed is repeated, and the answer says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ddtune.config.model import HostConfig
from ddtune.host.errors import Unreachable
from ddtune.rollout import link as module
from ddtune.rollout.link import HostLink


def test_an_answer_that_was_not_the_first_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    link = HostLink(HostConfig(name="b300", ssh="b300", write=True), "engine.service")
    answers: list[dict[str, Any] | Unreachable] = [{"cut": 14}, Unreachable("lost", "the link is lost."), {"cut": 0}]
    lost: list[str] = []

    async def once(verb: str, **_: object) -> dict[str, Any]:
        assert verb == "drain"
        answer = answers.pop(0)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    async def run() -> list[dict[str, Any]]:
        return [await link.call("drain") for _ in range(2)]

    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(link, "once", once)
    link.on_lost = lost.append
    assert asyncio.run(run()) == [{"cut": 14}, {"cut": 0, "repeated": True}]
    assert lost == ["the link is lost."]
