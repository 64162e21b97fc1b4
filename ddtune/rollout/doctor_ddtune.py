"""The lines of ``doctor`` about ddtune itself on a host: rights, programs, adoption, what was proven since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ddtune.rollout.doctor_look import Seen
from ddtune.rollout.symptom import Symptom, bad, good, note

JUDGED = frozenset(("adopted", "committed", "rolled_back", "judged"))
UNJUDGED = frozenset(("failed", "inconclusive"))
"""Outcomes of a gate that say nothing for what runs."""


def lines(seen: Seen) -> Iterator[Symptom]:
    """All of them."""
    yield _rights(seen)
    yield from _programs(seen)
    yield _adoption(seen)
    if not _site(seen):
        return
    yield from _build(seen)
    yield _launcher(seen)
    yield from _unit_files(seen)
    yield from _since_boot(seen)


def _rights(seen: Seen) -> Symptom:
    may = seen.privilege
    if may is None:
        return note("root", "not looked at")
    if may.kind == "root":
        return good("root", "the login is root")
    if may.kind == "sudo":
        return good("root", f"{may.user} may run anything by sudo without a password")
    if may.kind == "helper":
        return good("root", f"{may.user} may run ddtune's helper by sudo, and nothing else")
    if may.kind == "viewer":
        return note("root", f"{may.user} may run ddtune's viewer by sudo", "this login can look and change nothing")
    return bad(
        "root",
        f"{may.user} is not root and may not run ddtune's helper ({may.why.rstrip('.')})",
        "this host can only be watched",
        f"ddtune adopt {seen.host} --print-installer >install-ddtune.sh; root reads it and runs it on the host",
    )


def _programs(seen: Seen) -> Iterator[Symptom]:
    there = (seen.survey or {}).get("programs")
    if there is None:
        yield note(
            "programs", "nothing of ddtune is installed", "this host can only be watched", f"ddtune adopt {seen.host}"
        )
        return
    if there != seen.wanted_sha256:
        yield note(
            "programs",
            "the host has other programs than this ddtune",
            "both speak one protocol; what is new here is not new there",
            f"ddtune adopt {seen.host} --upgrade",
        )
    else:
        yield good("programs", "the same as here")
    hello = seen.privilege.hello if seen.privilege else None
    for text in (hello or {}).get("problems") or ():
        mend = f"undo that as root; what ddtune chooses and writes, this renews: ddtune adopt {seen.host} --upgrade"
        yield bad("programs", str(text), "others could change what runs as root", mend)


def _adoption(seen: Seen) -> Symptom:
    site = _site(seen)
    if site is None:
        left = (seen.survey or {}).get("drop_ins") or []
        if left:
            return bad(
                "adoption",
                f"an adoption of {left[0]} was cut off",
                "none until it is made good",
                f"ddtune adopt {seen.host}",
            )
        return note("adoption", "not under ddtune", "no switch, no rollback", f"ddtune adopt {seen.host}")
    service = seen.snapshot.service if seen.snapshot else None
    if service is None or not seen.service.get("argv"):
        return note("adoption", f"adopted as {site.get('profile')}; it does not run")
    if service.release is None:
        return bad(
            "adoption",
            "what runs is none of ddtune's releases",
            "a switch is refused",
            f"ddtune restart {seen.host} starts the stable release",
        )
    return good("adoption", f"runs {service.profile} ({service.standing})")


def _build(seen: Seen) -> Iterator[Symptom]:
    """The engine that is installed against the one that the stable release was judged on."""
    stable = (seen.state or {}).get("stable") or {}
    judged_on = (stable.get("meta") or {}).get("build")
    installed = (seen.build or {}).get("build")
    if not judged_on or not installed:
        return
    if judged_on == installed:
        yield good("engine build", "the one that the stable release was judged on")
        return
    yield bad(
        "engine build",
        f"{installed} is installed, and the stable release was judged on {judged_on}",
        "its next start runs an engine that nobody has judged",
        f"ddtune restart {seen.host} judges it behind the gates",
    )


def _launcher(seen: Seen) -> Symptom:
    chosen = (seen.state or {}).get("launched") if seen.state else None
    if seen.state is None:
        return note("launcher", "not looked at: the helper did not answer")
    if chosen == seen.props.get("InvocationID"):
        return good("launcher", "this start went through it")
    if chosen is None:
        return note(
            "launcher",
            "unproven until the next restart: no start has gone through it yet",
            "that a restart works is shown by the next one only",
            f"ddtune adopt {seen.host} --drill now",
        )
    return bad(
        "launcher",
        f"what it last chose was for another start than the present one of {seen.unit}",
        "something else than ddtune started what runs, and may do so again",
        f"see what its next start would be: systemctl cat {seen.unit}",
    )


def _unit_files(seen: Seen) -> Iterator[Symptom]:
    """The unit's own files against what they were when ddtune last took them as they are."""
    if seen.inspected is None or "outside" not in seen.inspected:
        return
    outside = seen.inspected["outside"]
    if not outside:
        yield good("unit files", "as they were when ddtune took them")
        return
    mend = f"take it back, or ddtune adopt {seen.host} --upgrade, which takes the files as they are"
    yield bad("unit files", str(outside.get("text")), "a switch is refused", mend)


def _since_boot(seen: Seen) -> Iterator[Symptom]:
    """After a reboot what runs is looked at again: a driver that came up late may have changed how it runs."""
    history = (seen.state or {}).get("history") or ()
    judged = [line for line in history if line.get("event") in JUDGED and line.get("outcome") not in UNJUDGED]
    if not judged:
        return
    if judged[-1].get("boot_id") == (seen.survey or {}).get("boot_id"):
        yield good("since boot", "judged since the host was started")
        return
    yield bad(
        "since boot",
        "the host was restarted since the service was last judged",
        "a driver that was not ready in time may have changed how the engine runs, without a word",
        f"ddtune gate {seen.host}",
    )


def _site(seen: Seen) -> Mapping[str, Any] | None:
    site = (seen.survey or {}).get("site")
    return site if isinstance(site, Mapping) else None
