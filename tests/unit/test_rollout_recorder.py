"""What a transaction keeps on the host for a ticket: a few of many answers, all of what was wrong, what was read."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ddtune.gate.model import Answer, CheckResult, Verdict
from ddtune.gate.probe import chat, generate
from ddtune.gpu.model import GpuReading
from ddtune.host.errors import HelperRefused, Unreachable
from ddtune.live.snapshot import Link, ServiceReading, Snapshot
from ddtune.rollout.link import HostLink
from ddtune.rollout.recorder import OF_A_LOAD, TEXT_CHARS, Recorder

SEEN = Snapshot(
    "box",
    1.0,
    Link("up"),
    gpus=(GpuReading(0, "u0", "p0", "B300", power_w=400.0), GpuReading(1, "u1", "p1", "B300")),
    service=ServiceReading(tokens_per_s=300.0),
)


class Host:
    """Takes what is sent; ``trouble`` is raised instead."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble = trouble
        self.sent: list[dict[str, Any]] = []

    async def once(self, verb: str, **fields: Any) -> dict[str, Any]:
        assert verb == "keep"
        if self.trouble:
            raise self.trouble
        self.sent.append(fields)
        return {}


def recorder(host: Host) -> Recorder:
    return Recorder(cast("HostLink", host), "0001-b12", lambda: SEEN)


def answers(count: int) -> tuple[Answer, ...]:
    return tuple(Answer(f"copy-{n}", text="word " * 400, completion_tokens=9) for n in range(count))


async def sent(host: Host, take: Recorder) -> list[dict[str, Any]]:
    await take.close(5.0)
    return [line for fields in host.sent for line in fields["answers"]]


def test_of_a_load_that_passed_a_few_answers_are_kept() -> None:
    async def go() -> None:
        host = Host()
        take = recorder(host)
        take.stage = "full"
        asked = [chat(f"copy-{n}", f"Copy this: {n}", 9) for n in range(20)]
        take.answers(asked, [Answer("copy-19", error="no answer", error_kind="timeout"), *answers(19)])
        take.verdict(CheckResult("verbatim_copy", Verdict.PASS, "fine"))
        first, *others, verdict = await sent(host, take)
        assert (first["id"], first["error"], first["prompt"]) == ("copy-19", "no answer", "Copy this: 19")
        assert len(others) == OF_A_LOAD - 1
        assert {len(one["text"]) for one in others} == {TEXT_CHARS}
        assert (verdict["stage"], verdict["check"], verdict["verdict"]) == ("full", "verbatim_copy", "pass")

    asyncio.run(go())


def test_of_one_that_did_not_pass_all_are() -> None:
    async def go() -> None:
        host = Host()
        take = recorder(host)
        take.answers([generate(f"copy-{n}", "1, 2,", 9) for n in range(20)], answers(20))
        take.verdict(CheckResult("agreement", Verdict.FAIL, "differs"))
        take.verdict(CheckResult("detectors", Verdict.FAIL, "too"))
        found = await sent(host, take)
        assert len([one for one in found if "id" in one]) == 20
        assert found[0]["prompt"] == "1, 2,"

    asyncio.run(go())


def test_readings_are_of_their_moment_and_no_refused_connection_is_an_answer() -> None:
    async def go() -> None:
        host = Host()
        take = recorder(host)
        take.reading("swap")
        take.answers([], [Answer("ready", error="refused", error_kind="connection")])
        assert await sent(host, take) == []
        (reading,) = host.sent[0]["readings"]
        assert (reading["phase"], reading["tokens_per_s"], reading["power_w"]) == ("swap", 300.0, [400.0, None])
        assert reading["ago_s"] >= 0

    asyncio.run(go())


def test_a_host_that_does_not_take_them_stops_nothing() -> None:
    async def go() -> None:
        for trouble in (HelperRefused("unknown", "there is no verb 'keep'"), Unreachable("timeout", "gone")):
            take = recorder(Host(trouble))
            take.reading()
            await take.close(5.0)

    asyncio.run(go())
