"""What stands in the way of a switch: pure findings from what was read of the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddtune.gpu.model import Alarm
from ddtune.profiles.model import Release
from ddtune.rollout.model import Finding
from ddtune.rollout.state import HostState


@dataclass(frozen=True)
class KnownBad:
    """What the envelope says against these axes."""

    cause: str
    text: str


def holder(txn: Mapping[str, Any], boottime: float | None) -> str:
    """Who holds the host, since when and until when at the latest, in one sentence."""
    owner = txn.get("owner") or {}
    who = f"{owner.get('who', 'somebody')} on {owner.get('host', 'an unknown machine')}"
    since = until = ""
    if boottime is not None and isinstance(txn.get("armed_at"), int | float):
        since = f" since {boottime - txn['armed_at']:.0f} s"
    if boottime is not None and isinstance(txn.get("confirm_deadline"), int | float):
        until = f", decided in {max(0.0, txn['confirm_deadline'] - boottime):.0f} s at the latest"
    return f"{who} holds it{since} with {txn.get('op')} ({txn.get('state')}){until}"


def same_in_effect(target: Release, running: Release, env: Mapping[str, str | None]) -> bool:
    """Whether a start of ``target`` would be what runs: ``env`` holds the running process's variables.

    Unsetting what is not set changes nothing.
    """
    names = {*target.env_set, *target.env_unset, *running.env_set, *running.env_unset}

    def value(release: Release, name: str) -> str | None:
        if name in release.env_set:
            return release.env_set[name]
        return None if name in release.env_unset else env.get(name)

    same_env = all(value(target, name) == value(running, name) for name in names)
    return target.argv == running.argv and target.cwd == running.cwd and same_env


def unknown_flags(release: Release, known: Sequence[str], running: Sequence[str]) -> list[str]:
    """Flags of the release that the installed build does not list and that the running service does not use.

    Exact spellings only: argparse's prefix matching changes its meaning between builds.
    """
    if not known:
        return []
    accepted = set(known) | {flag_name(word) for word in running if word.startswith("--")}
    wanted = (flag_name(word) for word in release.argv if word.startswith("--"))
    return sorted({flag for flag in wanted if flag not in accepted})


def flag_name(word: str) -> str:
    """``--flag`` of ``--flag`` or ``--flag=value``."""
    return word.split("=", 1)[0]


def host_findings(state: HostState, host: str) -> list[Finding]:
    """What blocks any change at all: not adopted, or held by somebody else."""
    if not state.adopted:
        return [
            Finding(
                f"{host} is not under ddtune yet: run `ddtune adopt {host}` first.", blocks=True, cause="not_adopted"
            )
        ]
    if state.busy is not None:
        return [Finding(f"{host} is busy: {holder(state.busy, state.boottime)}.", blocks=True, cause="busy")]
    return []


def drift_findings(inspected: Mapping[str, Any], state: HostState, host: str) -> list[Finding]:
    """A running service that is not the stable release is somebody's change: it is never overwritten."""
    running = (inspected.get("matches") or {}).get("release")
    if inspected.get("pid") in (None, 0):
        return []
    if running != state.stable.release:
        what = f"release {str(running)[:12]}" if running else "an argv that no release has"
        return [
            Finding(
                f"What runs on {host} is {what}, not the stable release; somebody changed it outside of ddtune. "
                f"`ddtune rollback {host}` restarts the stable release, `ddtune status {host}` shows what runs.",
                blocks=True,
                cause="drift",
            )
        ]
    return []


def file_findings(inspected: Mapping[str, Any], host: str, *, blocks: bool) -> list[Finding]:
    """The unit's own files that somebody has changed: theirs, and part of whatever would be judged."""
    outside = inspected.get("outside")
    if not outside:
        return []
    accept = f"`ddtune adopt {host} --upgrade` takes the files as they are."
    return [Finding(f"{outside.get('text')}. {accept}", blocks=blocks, cause="drift" if blocks else None)]


def alarm_findings(alarms: Sequence[Alarm]) -> list[Finding]:
    """What the GPUs say against a restart: after a lost GPU or a changed driver the service would not come up."""
    return [Finding(alarm.text, blocks=alarm.blocks, cause="gpu_lost" if alarm.blocks else None) for alarm in alarms]


def cannot_hold(why_not: str, host: str, *, blocks: bool) -> Finding:
    """A host that cannot keep users from the trial, where the configuration asks for that."""
    text = f'{host} has traffic = "held" and cannot hold it: {why_not}.'
    return Finding(text, blocks=blocks, cause="unsupported_unit" if blocks else None)


def release_findings(
    release: str,
    state: HostState,
    known_bad: KnownBad | None,
    unknown: Sequence[str],
    *,
    force: bool,
) -> list[Finding]:
    """What speaks against this release: flags the build lacks, quarantine, the known-bad region."""
    findings = []
    if unknown:
        findings.append(
            Finding(
                f"The installed build does not know {', '.join(unknown)}: the start would fail.",
                blocks=True,
                cause="unsupported_axis",
            )
        )
    if release in state.quarantine:
        findings.append(
            Finding(
                "This release failed here before and is quarantined; --force tries it again.",
                blocks=not force,
                cause="quarantined",
                forceable=True,
            )
        )
    if known_bad is not None:
        findings.append(
            Finding(
                f"Known bad here ({known_bad.cause}): {known_bad.text} --force tries it all the same.",
                blocks=not force,
                cause="known_bad",
                forceable=True,
            )
        )
    return findings


def first_blocking(findings: Sequence[Finding]) -> Finding | None:
    """The finding that a refusal names first."""
    return next((finding for finding in findings if finding.blocks), None)
