"""Adoption: what runs becomes the stable release, judged in place; nothing is restarted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddtune.config.model import HostConfig
from ddtune.gate.model import GateReport
from ddtune.gate.sending import EngineGone
from ddtune.gpu.reading import arch
from ddtune.host.connect import connect
from ddtune.live.snapshot import Snapshot
from ddtune.live.target import target_of
from ddtune.profiles import dialects, store
from ddtune.profiles.axes import axes_of
from ddtune.profiles.model import AxisValue, GateSizes, Profile
from ddtune.rollout.errors import Refused
from ddtune.rollout.inplace import judge_in_place
from ddtune.rollout.install import ensure_installed
from ddtune.rollout.link import HostLink
from ddtune.rollout.transaction import owner

ADOPTED = "adopted"


@dataclass(frozen=True)
class Adoption:
    """How an adoption ended; ``draft`` is the text of a profile when no known one has these axes."""

    unit: str
    profile: str
    release: str | None
    axes: Mapping[str, AxisValue]
    standing: str
    report: GateReport = field(default_factory=GateReport)
    draft: str | None = None


def name_for(axes: Mapping[str, AxisValue], known: Mapping[str, Profile]) -> str:
    """The profile whose axes these are, or ``adopted``."""
    fitting = [
        profile
        for profile in known.values()
        if profile.axes and all(axes.get(axis) == value for axis, value in profile.axes.items())
    ]
    # Of several the one that says most: a profile of few axes fits much that it does not mean.
    return max(fitting, key=lambda profile: len(profile.axes)).name if fitting else ADOPTED


async def adopt(config: HostConfig, snapshot: Snapshot, unit: str, *, force: bool) -> Adoption:
    """Install, judge what runs, and make it the stable release.

    Raises Refused (``wrong_output`` and its like when the running service fails the gate), the helper's errors and
    Unreachable.
    """
    async with connect(target_of(config)) as conn:
        await ensure_installed(conn, config)
    async with HostLink(config, unit) as link:
        build = await link.call("probe_build", timeout=180.0)
        flags = tuple(build.get("flags") or ())
        inspected = await link.call("inspect", env=[])
        argv = tuple(inspected.get("argv") or ())
        dialect = dialects.choose(None, flags, argv)
        inspected = await link.call("inspect", env=list(dialect.env_names))
        axes = axes_of(argv, {name: value for name, value in inspected["env"].items() if value is not None}, dialect)
        known = store.load_profiles()
        name = name_for(axes, known)
        report = await _judge(link, axes)
        bad = report.failed
        if bad is not None and not force:
            raise Refused(
                bad.cause or "gate_inconclusive",
                f"The running service did not pass the gate in place ({bad.name}: {bad.reason}); "
                "--force adopts it as unproven.",
            )
        standing = "adopted" if bad is None else "unproven"
        gpu = next((arch(one) for one in snapshot.gpus if arch(one)), None)
        answer = await link.call(
            "adopt",
            timeout=60.0,
            profile=name,
            owner=owner(),
            invocation=inspected.get("invocation"),
            stop_timeout_s=config.limits.stop_timeout_s,
            site={"dialect": dialect.name, "build": build.get("build"), "arch": gpu, "standing": standing},
            meta={
                "axes": axes,
                "build": build.get("build"),
                "expect": {"accept_length": known[name].expect.accept_length if name in known else None},
            },
        )
    draft = None if name in known else store.draft_profile(name, axes)
    return Adoption(unit, name, answer.get("release"), axes, standing, report, draft)


async def _judge(link: HostLink, axes: Mapping[str, AxisValue]) -> GateReport:
    try:
        return await judge_in_place(link, axes, GateSizes(), full=False)
    except EngineGone as error:
        raise Refused("engine_dead", f"The service on {link.config.name} does not answer: {error}") from error
