"""What works on a host and what does not: pure findings over one snapshot and the helper's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddtune.live.snapshot import Snapshot


@dataclass(frozen=True)
class Symptom:
    """One line of ``doctor``. ``ok`` is None when it could not be looked at; ``mend`` is a command or an act."""

    name: str
    ok: bool | None
    seen: str
    cost: str = ""
    mend: str = ""


def examine(
    host: str,
    snapshot: Snapshot,
    hello: Mapping[str, Any] | None,
    why_no_helper: str,
    fresh_login: str | None,
    wanted_sha256: str,
) -> list[Symptom]:
    """Every line of ``doctor`` for one host. ``fresh_login`` is None when a second login worked, else why not."""
    return [
        Symptom("link", True, f"round trip {snapshot.link.rtt_ms or 0:.0f} ms"),
        _login(host, fresh_login),
        _service(snapshot),
        _gpus(snapshot),
        _metrics(snapshot),
        *_notes(snapshot),
        _helper(host, hello, why_no_helper, wanted_sha256),
        *_weak(host, hello),
        _adopted(host, snapshot),
    ]


def _login(host: str, why_not: str | None) -> Symptom:
    if why_not is None:
        return Symptom("fresh login", True, "a second login works")
    return Symptom(
        "fresh login",
        False,
        why_not,
        "a switch could not be confirmed and would always roll back",
        f'make logins to {host} work without a touch or a code, or set confirm_login = "same"',
    )


def _service(snapshot: Snapshot) -> Symptom:
    service = snapshot.service
    if service.unit is None:
        return Symptom(
            "service", False, "no running SGLang unit found", "nothing to watch", "name it: HOST:UNIT, or start it"
        )
    return Symptom("service", service.state == "active", f"{service.unit} is {service.state}, {service.health}")


def _gpus(snapshot: Snapshot) -> Symptom:
    lost = [str(gpu.index) for gpu in snapshot.gpus if gpu.lost]
    if lost:
        return Symptom(
            "gpus", False, f"GPU {', '.join(lost)} lost", "a restart would fail", "look at the kernel log for its Xid"
        )
    if not snapshot.gpus:
        return Symptom("gpus", False, "no GPU reading", "power and memory stay unknown", "is the NVIDIA driver loaded?")
    gpm = any(gpu.dram_util is not None for gpu in snapshot.gpus)
    seen = f"{len(snapshot.gpus)} GPUs by {snapshot.gpu_source}, {'with' if gpm else 'without'} GPM"
    return Symptom("gpus", True, seen, "" if gpm else "what bounds the run stays unknown")


def _metrics(snapshot: Snapshot) -> Symptom:
    if snapshot.service.tokens_per_s is not None or snapshot.service.running is not None:
        return Symptom("metrics", True, "the engine's metrics are read")
    return Symptom(
        "metrics",
        False,
        "no engine metrics",
        "rates and accept length stay unknown",
        "add --enable-metrics to the unit",
    )


def _notes(snapshot: Snapshot) -> list[Symptom]:
    return [Symptom("note", None, note) for note in snapshot.notes]


def _helper(host: str, hello: Mapping[str, Any] | None, why_not: str, wanted: str) -> Symptom:
    if hello is None:
        return Symptom("helper", False, why_not, "this host can only be watched", f"ddtune adopt {host}")
    if hello.get("pyz_sha256") != wanted:
        return Symptom(
            "helper",
            False,
            "the host has other programs than this ddtune",
            "both still speak one protocol",
            f"ddtune adopt {host} --upgrade",
        )
    return Symptom("helper", True, f"the same programs as here, Python {hello.get('python')}")


def _weak(host: str, hello: Mapping[str, Any] | None) -> list[Symptom]:
    problems = (hello or {}).get("problems") or []
    return [
        Symptom("programs", False, text, "others could change what runs as root", f"ddtune adopt {host}")
        for text in problems
    ]


def _adopted(host: str, snapshot: Snapshot) -> Symptom:
    service = snapshot.service
    if not snapshot.adopted:
        return Symptom("adoption", False, "not under ddtune", "no switch, no rollback", f"ddtune adopt {host}")
    if service.profile is None:
        return Symptom(
            "adoption",
            False,
            "what runs is none of ddtune's releases",
            "a switch is refused",
            f"ddtune rollback {host} restarts the stable release",
        )
    return Symptom("adoption", True, f"runs {service.profile} ({service.standing})")
