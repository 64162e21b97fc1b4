"""The gate on what runs now, against its own answers of a moment ago; nothing is restarted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.gate import isolation, runner
from ddtune.gate import plan as gate_plan
from ddtune.gate.model import GateReport, Verdict
from ddtune.gate.process_facts import Expected
from ddtune.gate.reference import Reference
from ddtune.gate.stage import OnEvent, nothing
from ddtune.host.errors import HelperRefused
from ddtune.onhost.collect_unit import expected_schedulers
from ddtune.profiles.model import AxisValue, GateSizes, speculates
from ddtune.rollout import golden
from ddtune.rollout.judge import Judge
from ddtune.rollout.link import HostLink
from ddtune.rollout.owner import owner
from ddtune.rollout.state import read_state
from ddtune.rollout.timing import Stopwatch
from ddtune.rollout.units import adopted_unit


async def judge_running(config: HostConfig, *, full: bool, on_event: OnEvent = nothing) -> GateReport:
    """Judge an adopted service by its own profile's sizes. Raises EngineGone, Refused, and the helper's errors.

    The host remembers the verdict, and on which engine build it was, unless it may only be read.
    """
    async with HostLink(config, await adopted_unit(config)) as link:
        state = read_state(await link.call("state", limit=1))
        axes = state.meta_of(state.stable.release).get("axes") or {}
        sizes = gate_plan.production(golden.sizes_of(state), axes.get("max_running"))
        inspected = await Judge(link, Stopwatch()).inspected()
        key = await golden.engine_key(link, inspected, keep=not config.read_only)
        reference = await golden.kept(link, key)
        report = await judge_in_place(link, axes, sizes, full=full, on_event=on_event, reference=reference)
        if not config.read_only:
            await remember(link, report, full=full)
        return report


async def remember(link: HostLink, report: GateReport, *, full: bool) -> None:
    """A line of the host's history, if anything was judged."""
    bad = report.failed
    if bad is None:
        if report.passed:
            text = f"{'the whole' if full else 'the quick'} gate passed"
            await link.call("judged", ok=True, text=text, owner=owner())
        return
    said: dict[str, Any] = {"ok": False, "text": f"{bad.name}: {bad.reason}", "owner": owner()}
    if bad.verdict is Verdict.FAIL:
        await link.call("judged", **said)
        return
    # A host of an older ddtune knows no such field, and has no word for it.
    with suppress(HelperRefused):
        await link.call("judged", inconclusive=True, **said)


async def judge_in_place(
    link: HostLink,
    axes: Mapping[str, AxisValue],
    sizes: GateSizes,
    *,
    full: bool,
    on_event: OnEvent = nothing,
    reference: Reference | None = None,
) -> GateReport:
    """The quick gate, and the full one with ``full`` when the quick one passed; continuations are held to ``reference``
    where there is one. Raises EngineGone.
    """
    judge = Judge(link, Stopwatch())
    inspected = await judge.inspected()
    speculative = speculates(axes)
    found = isolation.probe()
    stable = await runner.baseline(
        judge.send,
        sizes,
        nonce=f"gate-{time.time():.0f}",
        speculative=speculative,
        isolation=found.isolation if full else None,
        full=full,
        reference=reference,
    )
    planned = gate_plan.plan(
        sizes,
        speculative=speculative,
        isolation=found.isolation.kind if found.isolation else None,
        isolation_reason=found.reason,
        baseline=stable,
        stages=("quick", "full") if full else ("quick",),
    )
    argv = inspected.get("argv")
    expected = Expected(
        invocation=inspected.get("invocation"), schedulers=None if argv is None else expected_schedulers(argv)
    )
    report = await runner.quick(judge.send, judge.inspect, planned, stable, expected, events=on_event)
    if full and report.passed:
        whole = await runner.full(
            judge.send, judge.inspect, planned, stable, expected, found.isolation, events=on_event
        )
        report = report.merged(whole)
    return report
