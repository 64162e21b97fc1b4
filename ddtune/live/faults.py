"""One fault of the present run, from the engine's lines and the kernel's Xids together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ddtune.engine.incidents import classify, together
from ddtune.engine.model import Evidence, Incident, LogLine
from ddtune.gpu.reading import by_pci
from ddtune.gpu.xid import GONE, XidEvent
from ddtune.live.state import State
from ddtune.onhost.canary_mark import charged

NEAR_S = 60.0
_OURS = ("python", "sglang", "pt_main")


def fault(state: State) -> Incident | None:
    """What broke in the present run, or None. A GPU's own fault comes before what the engine says because of it."""
    lines, began = state.since_start, run_began(state)
    gpus = by_pci(state.gpus)
    found = classify(lines, gpus, state.ran.changed)
    if found is not None:
        found = replace(found, profile=state.ran.profile)
        earlier = [one for one in state.incidents if began is not None and one.at < began]
        found = together(earlier[-1], found) if earlier else found
    events = [event for event in state.xids.events if began is None or event.last_at >= began]
    hardware = next((one for one in events if one.blames == "hardware" and _near(one, found)), None)
    if hardware is not None:
        return _of_hardware(hardware, found, gpus)
    if found is not None:
        return found
    if began is None:
        return None
    mark = (state.ddtune or {}).get("canary")
    ours = (one for one in events if one.blames == "profile" and _ours(one, lines))
    # An event may have come before this run, or while the graph canary ran, and again.
    times = ((one, at) for one in ours for at in (one.at, one.last_at))
    blamed = next(((one, at) for one, at in times if at >= began and not charged(mark, at, one.pid)), None)
    return None if blamed is None else _of_profile(*blamed, gpus, state)


def run_began(state: State) -> float | None:
    """When the present run began, by the host's clock and as far back as its lines are known; None without any."""
    return state.start.began_at if state.start else None


def differs(ddtune: Mapping[str, Any]) -> tuple[str, ...]:
    """The axes in which what runs differs from stable, as ``budget 8 → 16``."""
    running, stable = _axes(ddtune.get("running")), _axes(ddtune.get("stable"))
    if running is None or stable is None:
        return ()
    names = [*stable, *(name for name in running if name not in stable)]
    return tuple(
        f"{name} {_said(stable.get(name))} → {_said(running.get(name))}"
        for name in names
        if stable.get(name) != running.get(name)
    )


def with_pattern(incidents: Sequence[Incident]) -> tuple[Incident, ...]:
    """The incidents, of which the newest also says what the faults that an Xid confirms have in common: one GPU alone
    under several profiles, or one profile on several GPUs.
    """
    confirmed = [one for one in incidents if one.xids]
    gpus = sorted({one.gpu for one in confirmed if one.gpu is not None})
    profiles = list(dict.fromkeys(one.profile for one in confirmed if one.profile is not None))
    if not confirmed or confirmed[-1] is not incidents[-1]:
        return tuple(incidents)
    if len(gpus) == 1 and len(profiles) > 1:
        said = f"GPU {gpus[0]} alone has failed under {_and(profiles)}: suspect the GPU"
    elif len(profiles) == 1 and len(gpus) > 1:
        said = f"{profiles[0]} has failed on GPUs {_and([str(gpu) for gpu in gpus])}: suspect the profile"
    else:
        return tuple(incidents)
    newest = incidents[-1]
    return (*incidents[:-1], replace(newest, note=f"{newest.note}; {said}" if newest.note else said))


def _and(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _near(event: XidEvent, found: Incident | None) -> bool:
    return found is None or abs(event.at - found.at) <= NEAR_S


def _ours(event: XidEvent, lines: Sequence[LogLine]) -> bool:
    """Whether the process that the Xid names may be the service's."""
    if event.pid is None or event.pid in {line.pid for line in lines if line.source == "unit"}:
        return True
    return event.process is None or event.process.startswith(_OURS)


def _of_hardware(event: XidEvent, found: Incident | None, gpus: Mapping[str, int]) -> Incident:
    own = Evidence(event.at, "kernel", event.text)
    rest = tuple(line for line in found.evidence if line.text != own.text) if found else ()
    base = found or Incident("xid_hardware", event.at, (own,))
    return replace(
        base,
        cause="gpu_lost" if event.number == GONE else "xid_hardware",
        evidence=(own, *rest),
        gpu=gpus.get(event.pci),
        note=f"{event.name}: the GPU is to blame and no profile",
        action=event.action,
        confidence="sure",
        xids=tuple(dict.fromkeys((event.number, *base.xids))),
    )


def _of_profile(event: XidEvent, at: float, gpus: Mapping[str, int], state: State) -> Incident:
    return Incident(
        cause="xid_app",
        at=at,
        evidence=(Evidence(at, "kernel", event.text),),
        gpu=gpus.get(event.pci),
        note=event.name,
        confidence="likely" if event.pid is not None else "possible",
        xids=(event.number,),
        profile=state.ran.profile,
        changed=state.ran.changed,
    )


def _axes(named: Any) -> Mapping[str, Any] | None:
    meta = named.get("meta") if isinstance(named, Mapping) else None
    axes = meta.get("axes") if isinstance(meta, Mapping) else None
    return axes if isinstance(axes, Mapping) else None


def _said(value: Any) -> str:
    return (
        {True: "on", False: "off", None: "—"}.get(value, str(value)) if isinstance(value, bool | None) else str(value)
    )
