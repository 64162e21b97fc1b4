"""What the installed engine's word on a command line means for a switch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ddtune.host.errors import HelperFailed, HelperRefused
from ddtune.profiles.model import Release
from ddtune.rollout.engine_check import ask_engine, findings

RELEASE = Release(("python", "-m", "sglang.launch_server", "--tp-size", "3"), {"A": "1"}, ("B",), "/")


class Link:
    """A helper that gives one answer."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.asked: dict[str, Any] = {}

    async def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        self.asked = {"verb": verb, **fields}
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def ask(answer: dict[str, Any] | Exception) -> tuple[Link, list[Any]]:
    link = Link(answer)
    return link, asyncio.run(ask_engine(link, RELEASE))  # type: ignore[arg-type] # it calls nothing else


def test_the_whole_release_is_asked_about() -> None:
    link, found = ask({"verdict": "accepted", "stage": None, "text": ""})
    assert found == []
    assert link.asked["verb"] == "check_flags"
    assert (link.asked["argv"], link.asked["env_set"], link.asked["env_unset"]) == (
        list(RELEASE.argv),
        {"A": "1"},
        ["B"],
    )


def test_a_refusal_blocks_with_the_engines_own_words() -> None:
    (found,) = findings({"verdict": "refused", "stage": "parse", "text": "invalid choice: 3"})
    assert (found.blocks, found.cause, found.forceable) == (True, "bad_flags", False)
    assert "invalid choice: 3" in found.text


@pytest.mark.parametrize(
    "answer",
    [
        {"verdict": "unknown", "stage": None, "text": "it did not end within 120 s"},
        HelperRefused("unknown", "there is no verb 'check_flags'"),
        HelperFailed("unknown", "the helper gave no answer."),
    ],
)
def test_an_engine_that_cannot_be_asked_blocks_nothing(answer: Any) -> None:
    _, (found,) = ask(answer)
    assert not found.blocks
    assert "could not be asked" in found.text
