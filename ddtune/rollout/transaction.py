"""One transaction from baseline to its end: the operator's side of DESIGN's states.

The host decides; this side prepares, judges, asks and reports. Whatever it does last, the host ends on a release that
serves, with or without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ddtune.engine.model import Evidence, Incident, Phase
from ddtune.gate.model import CheckResult, GateEvent
from ddtune.gate.sending import EngineGone
from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
from ddtune.rollout.arm import arm
from ddtune.rollout.ending import await_over, await_serving, quarantined
from ddtune.rollout.errors import Refused, TrialFailed
from ddtune.rollout.feed import Feed
from ddtune.rollout.gating import Gating
from ddtune.rollout.judge import Judge
from ddtune.rollout.link import HostLink
from ddtune.rollout.model import Outcome, Progress
from ddtune.rollout.outcome import host_times, with_txn
from ddtune.rollout.plan import Prepared
from ddtune.rollout.recorder import Recorder
from ddtune.rollout.start import StartLimits, follow_start
from ddtune.rollout.timing import Stopwatch
from ddtune.rollout.ungated import Ungated
from ddtune.rollout.watch import TxnWatch, keep_lease

GUARD_CLAIM_S = 3.0
LAST_WORDS_S = 3.0


class Transaction:
    """Drives one prepared switch, restart or rollback over a link; ``run`` gives its outcome and never raises it."""

    def __init__(
        self,
        link: HostLink,
        feed: Feed,
        prepared: Prepared,
        stopwatch: Stopwatch,
        progress: Callable[[Progress], None],
    ) -> None:
        self._link = link
        self._feed = feed
        self._prepared = prepared
        self._watch_time = stopwatch
        self._progress = progress
        self._recorder = Recorder(link, prepared.op, lambda: feed.snapshot)
        self._judge = Judge(link, stopwatch)
        self._judge.on_load = self._recorder.answers
        self._judge.graphs = lambda: feed.graphs_in_use(self._trial_invocation)
        self._judge.model = lambda: feed.model(self._trial_invocation)
        self._judge.env_names = tuple(prepared.release.env_set) + tuple(prepared.release.env_unset)
        self._watch = TxnWatch(prepared.op)
        self._limits = link.config.limits.scaled(link.config.clock_scale)
        self._gating = Gating(self._judge, prepared, self._on_check, self._on_event)
        self._stage = ""
        self._stop_began: float | None = None
        self._served_at: float | None = None
        self._ungated = Ungated(lambda: self._trial_invocation, lambda: self._judge.sent, prepared.release.argv)
        feed.on_requests = self._ungated.read
        self._incident: Incident | None = None
        plan = prepared.plan
        self._outcome = Outcome(
            op=prepared.op,
            outcome="unknown",
            cause=None,
            origin=plan.origin,
            target=plan.target,
            stable=plan.stable,
            not_planned=plan.not_planned,
            simulated=plan.simulated,
        )

    async def run(self) -> Outcome:
        """The whole transaction. Before the arm a refusal is an outcome; after it the host's own decision is."""
        try:
            await self._before()
        except (Refused, HelperRefused, HelperFailed) as error:
            return self._finish(replace(self._outcome, op=None, outcome="refused", cause=error.cause), error.message)
        except Unreachable as error:
            return self._finish(replace(self._outcome, op=None, outcome="refused", cause="unreachable"), error.message)
        lease = asyncio.create_task(
            keep_lease(self._link, self._watch, every_s=self._limits.renew_s, lease_s=self._limits.lease_s)
        )
        recording = asyncio.create_task(self._recorder.run())
        try:
            await self._decide()
            # The host is on its way by now; what it was judged by can go there meanwhile.
            self._recorder.send()
            return await self._end()
        finally:
            lease.cancel()
            recording.cancel()
            await asyncio.gather(lease, recording, return_exceptions=True)
            await self._recorder.close(LAST_WORDS_S)

    def take(self, txn: Mapping[str, Any] | None) -> None:
        """A reading of txn.json from elsewhere, such as the collector's."""
        self._watch.update(txn)

    async def abort(self) -> None:
        """Ask the host to go back; ``run`` then ends by itself."""
        answer = await self._link.call("abort", op=self._prepared.op)
        self._watch.update(answer.get("txn"))

    async def _before(self) -> None:
        prepared, limits = self._prepared, self._limits
        if prepared.judges_stable:
            with self._phase("baseline", own=False, text="asking the stable release for its own answers"):
                await self._measure_stable()
        with self._phase("upload"):
            # The host's own name for the release: a key that stands as a placeholder here is whole there.
            candidate = prepared.plan.target.release
            if prepared.meta is not None:
                put = await self._link.call("put_release", release=prepared.release_body, meta=prepared.meta)
                candidate = put["release"]
                self._outcome = replace(self._outcome, target=replace(self._outcome.target, release=candidate))
        with self._phase("arm"):
            answer = await arm(self._link, prepared, limits, candidate, self._gating.canary)
            self._watch.update(answer.get("txn"), answer.get("boottime"))

    async def _measure_stable(self) -> None:
        host = self._link.config.name
        try:
            problems = await self._gating.measure_stable()
        except EngineGone as error:
            if self._prepared.plan.kind != "switch":
                return
            raise Refused(
                "engine_dead",
                f"The running service on {host} does not answer, so that nothing can be compared with it ({error}); "
                f"`ddtune restart {host}` brings the stable release back first.",
            ) from error
        if problems and self._prepared.plan.kind == "switch":
            raise Refused(
                "wrong_output",
                f"What runs on {host} cannot be a measure ({problems[0]}); `ddtune restart {host}` first.",
            )
        if problems:
            self._gating.forget_stable()

    async def _decide(self) -> None:
        """Run the trial against the host's own decision: whichever comes first."""
        trial = asyncio.create_task(self._trial())
        reverted = asyncio.create_task(self._watch.reverted.wait())
        try:
            await asyncio.wait({trial, reverted}, return_when=asyncio.FIRST_COMPLETED)
            if not trial.done():
                return
            await self._report(trial)
            if trial.exception() is None:
                await self._last_count()
        finally:
            self._incident = self._feed.incident
            for task in (trial, reverted):
                task.cancel()
            await asyncio.gather(trial, reverted, return_exceptions=True)

    async def _report(self, trial: asyncio.Task[None]) -> None:
        """Tell the host what this side found against the trial, unless the host knows better already."""
        error = trial.exception()
        if error is None or isinstance(error, Unreachable):
            return
        if not isinstance(error, TrialFailed | EngineGone | HelperRefused | HelperFailed):
            # Even a bug of ours must not leave the trial in charge: the host is told, then the bug is raised.
            with contextlib.suppress(Unreachable, HelperRefused, HelperFailed):
                await self._fail("unknown", f"ddtune failed: {type(error).__name__}", ())
            raise error
        # A crash shows here as a refused connection at the same moment as the host's guard reads its cause.
        with self._watch_time.excluded(), contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._watch.reverted.wait(), GUARD_CLAIM_S)
        if self._watch.reverted.is_set():
            return
        evidence = error.evidence if isinstance(error, TrialFailed) else ()
        with contextlib.suppress(Unreachable, HelperRefused, HelperFailed):
            cause = await self._lost_cause() if isinstance(error, EngineGone) else error.cause
            await self._fail(cause, str(error), evidence)

    async def _lost_cause(self) -> str:
        """Why a connection was lost: with the process still there the gate just could not finish."""
        found = await self._judge.inspected()
        alive = found.get("active_state") == "active" and found.get("invocation") == self._trial_invocation
        return "gate_inconclusive" if alive else "engine_dead"

    async def _fail(self, cause: str, message: str, evidence: tuple[Evidence, ...]) -> None:
        lines = evidence or (Evidence(time.time(), "gate", message),)
        body = [{"at": line.at, "source": line.source, "rank": line.rank, "text": line.text} for line in lines]
        answer = await self._link.call("fail", op=self._prepared.op, cause=cause, evidence=body)
        self._watch.update(answer.get("txn"), answer.get("boottime"))

    async def _trial(self) -> None:
        op, limits = self._prepared.op, self._limits
        with self._phase("drain", own=False, text="waiting for running requests"):
            answer = await self._link.call("drain", op=op, drain_s=limits.drain_s, timeout=limits.drain_s + 30)
            # A first call whose answer was lost may have cut some: then nobody knows how many.
            cut = None if answer.get("repeated") else answer.get("cut")
            self._outcome = replace(self._outcome, requests_cut=cut)
        self._took(await self._link.call("swap", op=op))
        self._stop_began = time.monotonic()
        with self._phase("stop", own=False):
            await self._link.call("stop", op=op, timeout=limits.stop_timeout_s + 60)
        self._feed.lines()
        self._ungated.begin()
        self._recorder.stage = "start"
        with self._phase("start", own=False):
            await self._link.call("start", op=op)
            await follow_start(
                self._feed,
                self._gating.generates,
                StartLimits(limits.progress_s, limits.start_deadline_s, max(1.0, 5.0 / self._link.config.clock_scale)),
                self._on_phase,
            )
        self._served_at = time.monotonic()
        self._took(await self._link.call("ready", op=op))
        await self._judge_trial()

    async def _judge_trial(self) -> None:
        await self._gate("quick")
        if self._prepared.plan.traffic == "held":
            self._took(await self._link.call("lift", op=self._prepared.op))
        await self._gate("full")
        self._took(await self._link.call("soak", op=self._prepared.op))
        await self._gate("soak")
        with self._phase("confirm"):
            await self._confirm()

    async def _confirm(self) -> None:
        call = self._link.fresh if self._link.config.confirm_login == "fresh" else self._link.call
        try:
            self._took(await call("confirm", op=self._prepared.op, invocation=self._trial_invocation))
        except Unreachable:
            # Sent or not, answered or not: the host knows.
            self._took(await self._link.call("renew", op=self._prepared.op, patience_s=self._limits.lease_s))
            if (self._watch.txn or {}).get("state") == "SOAK":
                raise TrialFailed(
                    "link_lost", "a fresh login to the host was not possible, so nothing was confirmed."
                ) from None

    async def _gate(self, stage: str) -> None:
        self._stage = self._recorder.stage = stage
        # What the gate itself does between its requests is ours; the soak only waits.
        with self._phase(stage, own=stage != "soak"):
            await self._gating.run(stage, self._trial_invocation)

    @property
    def _trial_invocation(self) -> str | None:
        value = (self._watch.txn or {}).get("trial_invocation")
        return str(value) if value else None

    async def _end(self) -> Outcome:
        """Wait until the host has nothing left to do, then say how it ended."""
        if self._watch.reverted.is_set():
            with self._phase("rollback", own=False, text="the host goes back to the stable release"):
                await await_over(self._link, self._watch, self._limits)
                await self._judge_stable()
        else:
            await await_over(self._link, self._watch, self._limits)
        ended = with_txn(self._outcome, self._watch.txn if self._watch.over.is_set() else None, self._incident)
        if ended.outcome == "rolled_back":
            told = await quarantined(self._link, self._prepared.op, ended.target.release)
            ended = replace(ended, quarantined=told)
        if ended.outcome == "committed":
            await self._judge.remember_left_out(self._prepared.op, self._gating.not_planned)
        return self._finish(ended, self._sentence(ended))

    async def _judge_stable(self) -> None:
        """ROLLED_BACK is said once stable, restarted, passed the quick gate; the host hears of it when it did not."""
        txn = self._watch.txn or {}
        if txn.get("state") != "ROLLED_BACK" or not self._watch.over.is_set():
            return
        if "times" not in txn:
            await await_serving(self._gating, self._limits.start_deadline_s)
        elif not txn["times"].get("serving"):
            return
        self._served_at = time.monotonic()
        self._stage = self._recorder.stage = "rollback"
        bad = await self._gating.check_stable()
        if bad is None:
            return
        with contextlib.suppress(HelperRefused, Unreachable):
            evidence = [{"at": time.time(), "source": "gate", "rank": None, "text": f"{bad.name}: {bad.reason}"}]
            answer = await self._link.call("settle", op=self._prepared.op, ok=False, cause=bad.cause, evidence=evidence)
            self._watch.update(answer.get("txn"))

    def _finish(self, outcome: Outcome, message: str) -> Outcome:
        phases = self._watch_time.report()
        if times := host_times(self._watch.txn):
            phases["host"] = times
        down = None
        if self._stop_began is not None and self._served_at is not None:
            down = round(self._served_at - self._stop_began, 3)
        return replace(
            outcome,
            message=message,
            phases=phases,
            gate=self._gating.report.checks,
            not_planned=self._gating.not_planned,
            downtime_s=down,
            served_ungated=self._ungated.count,
            own_s=round(self._watch_time.own_s, 3),
        )

    async def _last_count(self) -> None:
        """Nothing of ours is on its way any more, so that the next readings count exactly."""
        snapshot = self._feed.snapshot
        with self._watch_time.excluded():
            for _ in range(2):
                await self._feed.wait(2 * snapshot.tick_s if snapshot else 0.0)

    def _sentence(self, outcome: Outcome) -> str:
        host, stable = self._link.config.name, outcome.stable.profile or "the stable release"
        action = (self._watch.txn or {}).get("action") or "see the evidence"
        said = {
            "committed": f"{host} serves {outcome.target.profile}, which passed the whole gate.",
            "rolled_back": f"{host} serves {stable} again.",
            "rollback_failed": f"{host} could not be brought back to {stable}: a person must act now.",
            "host_action_required": f"{host} needs a person: {action}.",
            "unknown": f"{host} cannot be reached; it decides by itself. Run `ddtune status {host}` once it can.",
        }
        return said.get(outcome.outcome, outcome.message)

    def _took(self, answer: Mapping[str, Any]) -> None:
        self._watch.update(answer.get("txn"), answer.get("boottime"))

    def _on_phase(self, phase: Phase, seconds: float) -> None:
        name = {Phase.LAUNCH: "weights", Phase.READY: "ready"}.get(phase, phase.value)
        self._watch_time.start_phase(name, seconds)
        self._tell(f"start {phase.value}", seconds, done=True)

    def _on_check(self, check: CheckResult) -> None:
        self._recorder.verdict(check)
        self._tell(self._stage or "baseline", check.seconds, check=check)

    def _on_event(self, event: GateEvent) -> None:
        self._tell(self._stage or event.stage, event.seconds, gate=event)

    @contextlib.contextmanager
    def _phase(self, name: str, *, own: bool = True, text: str = "") -> Iterator[None]:
        began = time.monotonic()
        self._recorder.reading(name)
        self._tell(name, 0.0, text)
        with self._watch_time.phase(name, own=own):
            yield
        self._tell(name, time.monotonic() - began, text, done=True)

    def _tell(
        self,
        phase: str,
        seconds: float,
        text: str = "",
        *,
        done: bool = False,
        check: CheckResult | None = None,
        gate: GateEvent | None = None,
    ) -> None:
        decided = self._watch.reverted.is_set() or self._watch.over.is_set()
        self._progress(
            Progress(
                phase=phase,
                seconds=seconds,
                text=text,
                done=done,
                lease_in_s=None if decided else self._watch.seconds_until("lease_until"),
                check=check,
                gate=gate,
            )
        )
