"""Adoption: what runs becomes the stable release, judged in place; nothing is restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.gate.model import GateReport
from ddtune.gate.sending import EngineGone
from ddtune.gpu.reading import arch
from ddtune.host.connect import connect
from ddtune.host.connection import Connection
from ddtune.host.errors import HelperRefused
from ddtune.host.helper import NO_SUDO, Helper
from ddtune.live.snapshot import Snapshot
from ddtune.live.target import target_of
from ddtune.profiles import dialects, store
from ddtune.profiles.axes import axes_of
from ddtune.profiles.model import AxisValue, GateSizes, Profile
from ddtune.profiles.site import recheck
from ddtune.rollout import privilege, site_dialect
from ddtune.rollout.errors import Refused, require_writable
from ddtune.rollout.inplace import judge_in_place
from ddtune.rollout.install import constants, ensure_installed
from ddtune.rollout.link import HostLink
from ddtune.rollout.owner import owner
from ddtune.rollout.survey import meant, survey

ADOPTED = "adopted"
PROBE_S = 180.0


@dataclass(frozen=True)
class Adoption:
    """How an adoption ended.

    ``draft`` is the text of a profile when no known one has these axes. ``dialect_draft`` is that of the service's own
    dialect and ``dialect_file`` where it lies for the user to edit. ``warnings`` are sentences about what is not wrong,
    and not as expected either. ``already`` is an adoption of an earlier time: then nothing was judged.
    ``accepted`` are the unit's own files that had been changed since, ``{"path", "what", "settings"}``.
    """

    unit: str
    profile: str | None
    release: str | None
    axes: Mapping[str, AxisValue]
    standing: str
    report: GateReport = field(default_factory=GateReport)
    draft: str | None = None
    dialect: str | None = None
    dialect_draft: str | None = None
    dialect_file: str | None = None
    warnings: tuple[str, ...] = ()
    already: bool = False
    installed: bool = False
    api_port: int | None = None
    accepted: tuple[Mapping[str, Any], ...] = ()


def name_for(axes: Mapping[str, AxisValue], known: Mapping[str, Profile]) -> str:
    """The profile that says most of these axes and no other, of the user's own before a shipped one; or ``adopted``."""
    fitting = {
        name: len(profile.axes)
        for name, profile in known.items()
        if profile.axes and not profile.args and all(axes.get(axis) == value for axis, value in profile.axes.items())
    }
    # The user's own come last.
    return max(reversed(fitting), key=fitting.__getitem__, default=ADOPTED)


async def adopt(
    config: HostConfig,
    snapshot: Callable[[HostConfig], Snapshot | None],
    *,
    force: bool = False,
    upgrade: bool = False,
) -> Adoption:
    """Look, install, judge what runs, and make it the stable release; safe to repeat after any interruption.

    ``snapshot`` reads the host once for its GPUs. With ``upgrade`` only the programs are renewed, and the unit's own
    files taken as they are. Raises Ambiguous, Refused (``wrong_output`` and its like when the running service fails
    the gate), the helper's errors and Unreachable.
    """
    require_writable(config)
    async with connect(target_of(config)) as conn:
        found = await survey(conn, config)
        adopted = list(found.get("adopted") or ())
        unit = meant(config, found if config.unit or found["units"] else {**found, "units": _named(adopted)})
        config = replace(config, api_port=_port(found, unit) or config.api_port)
        may = await privilege.find(conn, config)
        if may.kind == "none" and (found.get("programs") or NO_SUDO in may.why):
            raise Refused("read_only", may.why)
        if may.installs and unit not in adopted:
            await _check(conn, config, unit, may)
        installed = await ensure_installed(conn, config, may, renew=upgrade)
    if upgrade:
        done = Adoption(unit, None, None, {}, "", installed=installed.done, already=unit in adopted)
        if done.already:
            async with HostLink(config, unit) as link:
                done = replace(done, accepted=await _accept(link))
        return replace(done, warnings=installed.notes)
    async with HostLink(config, unit) as link:
        if unit in adopted:
            done = await _already(link, installed.done)
            return done if may.kind == "viewer" else await _as_it_is(link, done)
        await link.call("can_adopt", api_port=config.api_port)
        done = await _adopt(link, snapshot, force=force)
    return replace(done, installed=installed.done, warnings=(*installed.notes, *done.warnings))


async def _check(conn: Connection, config: HostConfig, unit: str, may: privilege.Privilege) -> None:
    """Refuses a service that cannot be adopted before anything is written to the host."""
    helper = Helper(conn, root=config.root, python=config.python, login_is_root=may.kind == "root")
    await helper.call_uninstalled("can_adopt", unit, install=constants(config), api_port=config.api_port)


async def _already(link: HostLink, installed: bool) -> Adoption:
    state = await link.call("state", limit=1)
    stable = state.get("stable") or {}
    meta, site = stable.get("meta") or {}, state.get("site") or {}
    own = site_dialect.of_host(site)
    # An adoption that was cut off behind its last change of the host, or another operator's.
    trouble = site_dialect.write(*own) if own else None
    return Adoption(
        link.unit,
        stable.get("profile"),
        stable.get("release"),
        meta.get("axes") or {},
        str(site.get("standing") or "adopted"),
        dialect=site.get("dialect"),
        dialect_file=None if own is None or trouble else str(site_dialect.path_of(own[0])),
        warnings=(trouble,) if trouble else (),
        already=True,
        installed=installed,
        api_port=site.get("api_port"),
    )


async def _accept(link: HostLink) -> tuple[Mapping[str, Any], ...]:
    """Takes the unit's own files as they are now; what had been changed of them."""
    return tuple((await link.call("accept", owner=owner())).get("files") or ())


async def _as_it_is(link: HostLink, done: Adoption) -> Adoption:
    """The same where the programs stayed; a host that will not now, or does not know how, stays as it is."""
    try:
        return replace(done, accepted=await _accept(link))
    except HelperRefused as error:
        outside = (await link.call("inspect", env=[])).get("outside")
        return replace(done, warnings=(*done.warnings, error.message.rstrip("."))) if outside else done


async def _adopt(link: HostLink, snapshot: Callable[[HostConfig], Snapshot | None], *, force: bool) -> Adoption:
    config = link.config
    seen, build = await asyncio.gather(asyncio.to_thread(snapshot, config), link.call("probe_build", timeout=PROBE_S))
    flags = tuple(build.get("flags") or ())
    inspected = await link.call("inspect", env=[])
    argv = tuple(inspected.get("argv") or ())
    parent = dialects.choose(None, flags, argv)
    inspected = await link.call("inspect", env=_env_names())
    env = {name: value for name, value in inspected["env"].items() if value is not None}
    own = site_dialect.drafted(config.name, link.unit, argv, env, flags, str(build.get("build")), parent)
    axes = axes_of(argv, env, own.dialect)
    known = store.load_profiles()
    name = name_for(axes, known)
    report = await _judge(link, axes, known[name].gate if name in known else GateSizes())
    bad = report.failed
    if bad is not None and not force:
        raise Refused(
            bad.cause or "gate_inconclusive",
            f"The running service did not pass the gate in place ({bad.name}: {bad.reason}); "
            "--force adopts it as unproven.",
        )
    standing = "adopted" if bad is None else "unproven"
    gpu = next((arch(one) for one in (seen.gpus if seen else ()) if arch(one)), None)
    answer = await link.call(
        "adopt",
        timeout=60.0,
        profile=name,
        owner=owner(),
        invocation=inspected.get("invocation"),
        stop_timeout_s=config.limits.stop_timeout_s,
        site={
            "dialect": parent.name,
            "site_dialect": own.on_host,
            "build": build.get("build"),
            "arch": gpu,
            "standing": standing,
        },
        meta={
            "axes": axes,
            "build": build.get("build"),
            "expect": {"accept_length": known[name].expect.accept_length if name in known else None},
        },
        api_port=config.api_port,
        api_key_file=config.api_key_file,
    )
    trouble = site_dialect.write(own.name, own.text)
    path = site_dialect.path_of(own.name)
    return Adoption(
        link.unit,
        name,
        answer.get("release"),
        axes,
        standing,
        report,
        draft=None if name in known else store.draft_profile(name, axes),
        dialect=parent.name,
        dialect_draft=own.text,
        dialect_file=None if trouble else str(path),
        warnings=(
            *(answer.get("warnings") or ()),
            *_kept(answer.get("wrapper") or {}),
            *([trouble] if trouble else []),
            *([site_dialect.kept_as_it_is(own, axes)] if own.kept else []),
            *(one.text for one in recheck(own.dialect, str(build.get("build")), flags)),
        ),
        api_port=config.api_port,
    )


def _env_names() -> list[str]:
    """Every variable that a dialect reads an axis from."""
    return sorted({name for dialect in dialects.load_dialects().values() for name in dialect.env_names})


def _kept(wrapper: Mapping[str, Any]) -> tuple[str, ...]:
    """What is carried over from a wrapper, whose place ddtune's launcher takes."""
    names = [*(wrapper.get("env_set") or ()), *(f"no {name}" for name in wrapper.get("env_unset") or ())]
    if not names:
        return ()
    return (f"the unit's wrapper is no longer run; the environment that it made is kept: {', '.join(names)}",)


def _named(units: list[str]) -> list[dict[str, Any]]:
    return [{"unit": unit} for unit in units]


def _port(found: Mapping[str, Any], unit: str) -> int | None:
    """The port that the engine's own command line names."""
    service = found.get("service") if found.get("unit") == unit else None
    port = (service or {}).get("port")
    return port if isinstance(port, int) else None


async def _judge(link: HostLink, axes: Mapping[str, AxisValue], sizes: GateSizes) -> GateReport:
    try:
        return await judge_in_place(link, axes, sizes, full=False)
    except EngineGone as error:
        raise Refused("engine_dead", f"The service on {link.config.name} does not answer: {error}") from error
