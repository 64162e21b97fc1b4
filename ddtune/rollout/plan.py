"""What a change would do: everything read, nothing touched."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ddtune.gate import isolation as sandbox
from ddtune.gate import plan as gate_plan
from ddtune.gate.golden import engine_key
from ddtune.gate.isolation import Isolation
from ddtune.gate.plan import GatePlan
from ddtune.gate.process_facts import Expected
from ddtune.gate.reference import Reference
from ddtune.host.errors import HelperRefused
from ddtune.live.snapshot import Snapshot
from ddtune.onhost.api import flag_value
from ddtune.onhost.collect_unit import expected_schedulers
from ddtune.onhost.txn_model import AHEAD, VISIT
from ddtune.profiles import store
from ddtune.profiles.dialects import load_dialects
from ddtune.profiles.diff import diff
from ddtune.profiles.envelope import canary_at, canary_budget
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.model import GateSizes, Profile, Release, speculates
from ddtune.rollout import golden, preflight
from ddtune.rollout.engine_check import FLAG_CHECK_S, ask_engine
from ddtune.rollout.errors import Refused
from ddtune.rollout.learned import downtime
from ddtune.rollout.link import HostLink
from ddtune.rollout.model import Finding, Plan, PlanCanary, ReleaseRef
from ddtune.rollout.onbuild import Build, find_profile
from ddtune.rollout.state import HostState, read_state
from ddtune.rollout.timing import Stopwatch

_LETTERS = "bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True)
class Prepared:
    """A plan with what is needed to carry it out. ``meta`` is None where the release is on the host already."""

    op: str
    plan: Plan
    release: Release
    meta: Mapping[str, Any] | None
    sizes: GateSizes
    speculative: bool
    stable_speculative: bool
    expect_accept: float | None
    graphs: bool | None
    isolation: Isolation | None
    isolation_reason: str
    force: bool
    judges_stable: bool
    ends_trial: bool = False
    golden_key: Mapping[str, str] = field(default_factory=dict)
    reference: Reference | None = None
    model: str | None = None

    @property
    def release_body(self) -> dict[str, Any]:
        """The release as the helper takes it."""
        release = self.release
        return {
            "argv": list(release.argv),
            "cwd": release.cwd,
            "env_set": dict(release.env_set),
            "env_unset": list(release.env_unset),
            "schema": release.schema,
        }

    def expected(self, invocation: str | None) -> Expected:
        """What the running process must be."""
        return Expected(
            release=self.release,
            invocation=invocation,
            n_restarts=0,
            schedulers=expected_schedulers(self.release.argv),
            graphs=self.graphs,
            model_id=self.model,
        )


def of_trial(kind: str, planned: GatePlan) -> GatePlan:
    """What of ``planned`` judges the candidate: nothing on a visit, which only asks it."""
    return replace(planned, checks=(), not_planned={}) if kind == VISIT else planned


def op_id(history: tuple[Mapping[str, Any], ...], name: str) -> str:
    """The next op id: a number that grows with the host's history, a word to recognise it by, five letters of chance.

    Two who plan at one moment read the same history, and a host that is adopted anew begins at 1: only the letters
    tell their operations apart. There are no vowels in them, so that they spell nothing.
    """
    numbers = [int(match[1]) for line in history if (match := re.match(r"(\d+)-", str(line.get("op") or "")))]
    word = re.sub(r"[^a-z0-9]+", "-", name.lower())[:34].strip("-") or "op"
    letters = "".join(secrets.choice(_LETTERS) for _ in range(5))
    return f"{max(numbers, default=0) + 1:04d}-{word}-{letters}"


async def make_plan(
    link: HostLink,
    kind: str,
    name: str | None,
    *,
    force: bool,
    keep: bool,
    snapshot: Snapshot | None,
    stopwatch: Stopwatch,
) -> Prepared:
    """Read the host and say what ``kind`` (switch, restart, rollback or golden, a visit) would do.

    With ``keep`` the host remembers what its engine was asked; without it nothing is written there.
    """
    config = link.config
    kept = {"keep": True} if keep else {}
    known = store.load_profiles()
    asked = find_profile(name, known) if name is not None else None
    state = read_state(await link.call("state", limit=200))
    if not state.adopted:
        raise Refused("not_adopted", preflight.host_findings(state, config.name)[0].text)
    inspected, stable, found = await asyncio.gather(
        link.call("inspect", env=_env_names(asked)),
        _release(link, state.stable.release),
        asyncio.to_thread(sandbox.probe),
    )
    with stopwatch.excluded():
        probed = await link.call("probe_build", timeout=FLAG_CHECK_S, **kept)
    build = Build.of(state, probed)
    key = engine_key(inspected.get("argv") or (), str(probed.get("build") or ""))
    running = bool(inspected.get("pid"))
    (written, profile, findings), reference = await asyncio.gather(
        _target(link, kind, asked, state, known, build, force=force), _kept(link, key, wanted=running)
    )
    target = written or Release(build.base.argv, {}, (), build.base.cwd)
    same = bool(written and stable) and preflight.same_in_effect(target, stable or target, inspected.get("env") or {})
    if same and stable is not None:
        target = stable
    traffic, unheld = await _traffic(link, kind)
    # A rollback ends the running transaction, whoever's it is.
    findings = [
        *([] if kind == "rollback" and state.busy is not None else preflight.host_findings(state, config.name)),
        *(await _drift(link, inspected, state) if kind in AHEAD else []),
        *preflight.file_findings(inspected, config.name, blocks=kind in AHEAD),
        *(preflight.alarm_findings(snapshot.alarms) if snapshot and kind != "rollback" else []),
        *unheld,
        *findings,
    ]
    if kind in AHEAD and running and not same and preflight.first_blocking(findings) is None:
        with stopwatch.excluded():
            findings += await ask_engine(link, target, keep=keep)
    isolation, why_not = found.isolation, found.reason
    speculative = speculates({**build.axes(target), **profile.axes})
    stable_axes = state.meta_of(state.stable.release).get("axes") or {}
    sizes = gate_plan.production(profile.gate, profile.axes.get("max_running"))
    whole = gate_plan.plan(
        sizes,
        speculative=speculative,
        isolation=isolation.kind if isolation else None,
        isolation_reason=why_not,
        expect_accept=profile.expect.accept_length,
    )
    planned = of_trial(kind, whole)
    limits = config.limits.scaled(config.clock_scale)
    if kind == VISIT:
        sizes = golden.sizes_of(state)
        findings.append(_visit(sizes, state, limits.drain_s, config.clock_scale, same=same))
    service = snapshot.service if snapshot else None
    start = downtime(state.history, profile.name, state.envelope, build.build)
    plan = Plan(
        host=config.name,
        unit=link.unit,
        kind="restart" if same and kind == "switch" else kind,
        origin=ReleaseRef(
            state.profile_of((inspected.get("matches") or {}).get("release")),
            (inspected.get("matches") or {}).get("release"),
        ),
        target=ReleaseRef(profile.name, _host_name(kind, target, stable, state)),
        stable=state.stable,
        changes=tuple(diff(stable, written)) if stable and written else (),
        findings=tuple(findings),
        running=service.running if service else None,
        queued=service.queued if service else None,
        drain_s=limits.drain_s,
        lease_s=limits.lease_s,
        confirm_deadline_s=limits.confirm_deadline_s,
        soak_s=0.0 if kind == VISIT else _soak(profile.gate, config.clock_scale, limits.soak_s).soak_s,
        expected_start_s=None if start is None else round(start.typical_s, 1),
        expected_start_why="" if start is None else start.text,
        gate=planned.names,
        not_planned=planned.not_planned,
        traffic=traffic,
        axes=dict(profile.axes),
        simulated=config.simulated,
        canary=_canary(build, target, profile, state) if kind == "switch" and not same else None,
        checks=planned.checks,
        reference=reference.said if reference else "stable, asked just before",
    )
    return Prepared(
        op=op_id(state.history, profile.name or kind),
        plan=plan,
        release=target,
        meta=None if kind not in AHEAD or same else _meta(profile, build),
        sizes=_soak(sizes, config.clock_scale, limits.soak_s, limits.soak_requests),
        speculative=speculative,
        stable_speculative=speculates(stable_axes),
        expect_accept=profile.expect.accept_length,
        graphs=_flag(profile, "graphs"),
        isolation=isolation,
        isolation_reason=why_not,
        force=force,
        judges_stable=running,
        ends_trial=kind == "rollback" and state.busy is not None,
        golden_key=key,
        reference=reference,
        model=_model(snapshot, inspected, target),
    )


def _model(snapshot: Snapshot | None, inspected: Mapping[str, Any], target: Release) -> str | None:
    """What stable serves by its own word, where the target asks for the same model; None where nobody has told."""
    asked = [flag_value(argv, "--model-path") for argv in (inspected.get("argv") or (), target.argv)]
    return snapshot.service.model if snapshot and asked[0] == asked[1] else None


async def _kept(link: HostLink, key: Mapping[str, str], *, wanted: bool) -> Reference | None:
    """The reference that the host keeps for what runs; none where nothing does."""
    return await golden.kept(link, key) if wanted else None


def _visit(sizes: GateSizes, state: HostState, drain_s: float, clock_scale: float, *, same: bool) -> Finding:
    """What a visit costs, in minutes, or why there is none to make."""
    if same:
        text = "What runs is without speculation already: `golden --from stable` makes the same without a restart."
        return Finding(text, blocks=True, cause="unknown")
    start = downtime(state.history, None)
    minutes = golden.visit_minutes(sizes, start.typical_s if start else None, drain_s, clock_scale)
    return Finding(
        f"The visit takes about {minutes:g} min and restarts the service twice; meanwhile users are answered without "
        "speculation or not at all, and it always ends on stable."
    )


async def _drift(link: HostLink, inspected: Mapping[str, Any], state: HostState) -> list[Finding]:
    """What somebody changed outside of ddtune, and who, where the host's journal tells."""
    found = preflight.drift_findings(inspected, state, link.config.name)
    if not found:
        return []
    try:
        who = (await link.call("who"))["who"]
    except HelperRefused:
        # A helper of an older ddtune does not know.
        return found
    return [replace(one, text=f"{one.text} Who: {who}.") for one in found] if who else found


async def _traffic(link: HostLink, kind: str) -> tuple[str, list[Finding]]:
    """Whether users are kept from the trial, and what stands in the way of it. Nothing stands in the way back."""
    if link.config.traffic != "held":
        return "open", []
    try:
        why_not = (await link.call("can_hold", api_port=link.config.api_port))["why_not"]
    except HelperRefused as error:
        why_not = error.message
    if why_not is None:
        return "held", []
    blocks = kind != "rollback"
    return "held" if blocks else "open", [preflight.cannot_hold(why_not, link.config.name, blocks=blocks)]


async def _target(
    link: HostLink,
    kind: str,
    asked: Profile | None,
    state: HostState,
    known: Mapping[str, Profile],
    build: Build,
    *,
    force: bool,
) -> tuple[Release | None, Profile, list[Finding]]:
    """The release to end on (None where it cannot be written), the profile that judges it, what speaks against it."""
    if asked is None:
        ref = state.stable
        if kind == "rollback" and state.busy is None:
            ref = state.previous
            if ref.release is None:
                raise Refused(
                    "unknown",
                    f"{link.config.name} has no release before the stable one to go back to; "
                    f"`ddtune restart {link.config.name}` starts the stable one again.",
                )
        release = await _release(link, ref.release)
        assert release is not None
        profile = known.get(ref.profile or "") or _unnamed(ref, state)
        return release, profile, []
    try:
        release = build.resolve(asked)
    except UnsupportedAxis as error:
        return None, asked, [Finding(str(error), blocks=True, cause="unsupported_axis")]
    unknown = preflight.unknown_flags(release, build.flags, build.base.argv)
    bad = build.known_bad(asked, release)
    found = preflight.release_findings(release.sha256, state, bad, unknown, force=force)
    return release, asked, build.lint(asked) + found


def _canary(build: Build, target: Release, profile: Profile, state: HostState) -> PlanCanary | None:
    """What the graph canary said of the target's budget; None where it has no graphs over a tree."""
    budget = canary_budget({**build.axes(target), **profile.axes})
    if budget is None:
        return None
    said = canary_at(state.envelope, build.arch, build.build, budget)
    return PlanCanary(budget) if said is None else PlanCanary(budget, said.verdict, said.reason, said.at)


def _host_name(kind: str, target: Release, stable: Release | None, state: HostState) -> str | None:
    """The host's name for the target: a key in its argv is whole there, so that only the host can hash it."""
    if kind == "rollback" and state.busy is None:
        return state.previous.release
    return state.stable.release if target == stable else target.sha256


def _env_names(profile: Profile | None) -> list[str]:
    """Every variable that a dialect or this profile may set or unset."""
    known = {name for dialect in load_dialects().values() for name in dialect.env_names}
    return sorted(known | ({*profile.env, *profile.unset} if profile else set()))


async def _release(link: HostLink, sha: str | None) -> Release | None:
    if sha is None:
        return None
    body = (await link.call("release", sha=sha))["release"]
    return Release(tuple(body["argv"]), body["env_set"], tuple(body["env_unset"]), body["cwd"], body["schema"])


def _unnamed(ref: ReleaseRef, state: HostState) -> Profile:
    """A stand-in for a profile whose file is not here: the axes that the host recorded, the default gate."""
    return Profile(name=ref.profile or "unnamed", axes=dict(state.meta_of(ref.release).get("axes") or {}))


def _meta(profile: Profile, build: Build) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "axes": dict(profile.axes),
        "expect": {"accept_length": profile.expect.accept_length},
        "build": build.build,
    }


def _flag(profile: Profile, axis: str) -> bool | None:
    value = profile.axes.get(axis)
    return value if isinstance(value, bool) else None


def _soak(
    sizes: GateSizes, clock_scale: float, soak_s: float | None = None, soak_requests: int | None = None
) -> GateSizes:
    """The sizes with the soak in real seconds of this host."""
    return replace(
        sizes,
        soak_s=sizes.soak_s / clock_scale if soak_s is None else soak_s,
        soak_requests=sizes.soak_requests if soak_requests is None else soak_requests,
    )
