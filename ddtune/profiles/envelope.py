"""Known outcomes by architecture, build and axes: shipped regions and what the host itself has seen."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from ddtune.profiles.model import AxisValue, speculates

_COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_CONDITION = re.compile(r"(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)")

# What an engine does when an axis is not set; a condition on it holds by this.
_UNSAID: Mapping[str, AxisValue] = {"graphs": True, "nvls": False, "symm_mem": False, "overlap": True}

CANARY = "canary"
"""The kind of an entry that tells of the graph canary: of a kernel at a budget, never of a profile."""

# Ends that say nothing of the axes.
_BLAMELESS = frozenset(
    (
        *("aborted", "operator_request", "lease_lost", "deadline_expired", "link_lost", "killed", "busy", "drift"),
        *("gate_inconclusive", "xid_hardware", "gpu_lost", "disk_full", "port_in_use", "residue", "unreachable"),
        *("unknown", "read_only", "known_bad", "quarantined", "not_adopted", "nvls_fabric", "slow"),
    )
)


@dataclass(frozen=True)
class Entry:
    """One known outcome, or a region of them.

    ``when`` maps axes to values or to comparisons such as ``"> 8"``. With ``exact`` (an outcome seen on the host) the
    axes must be these and no others. ``bad`` speaks against a switch, ``good`` for it; ``cause`` is None where the
    region is known and the kind of fault at these very axes is not.
    """

    arch: str
    build: str
    when: Mapping[str, AxisValue]
    bad: bool
    good: bool = False
    cause: str | None = None
    evidence: str = ""
    at: str | float = ""
    confidence: str = ""
    dialect: str | None = None
    op: str | None = None
    exact: bool = False
    causes: Mapping[AxisValue, str] = field(default_factory=dict)
    cause_axis: str | None = None

    @property
    def text(self) -> str:
        """Why, in one sentence."""
        confidence = f" (confidence {self.confidence})" if self.confidence else ""
        return f"{self.evidence}{confidence}"


def shipped_envelope() -> list[Entry]:
    """The regions that come with ddtune. Raises ConfigError when their file is damaged."""
    from ddtune.profiles.envelope_file import EnvelopeFile
    from ddtune.profiles.files import read_file, shipped_dir

    return read_file(shipped_dir() / "envelope.toml", EnvelopeFile).entries()


def from_host(line: Mapping[str, Any]) -> Entry:
    """A line of the host's own envelope: ``{"arch", "build", "axes", "outcome", "cause", "evidence", "at", "op"}``."""
    cause = line.get("cause")
    canary = line.get("kind") == CANARY
    committed = line.get("outcome") == "committed"
    axes = line.get("axes")
    return Entry(
        arch=str(line.get("arch") or ""),
        build=str(line.get("build") or ""),
        when=dict(axes) if isinstance(axes, Mapping) else {},
        bad=not committed and not canary and isinstance(cause, str) and cause not in _BLAMELESS,
        good=committed,
        cause=cause if isinstance(cause, str) else None,
        evidence=_evidence(line),
        at=line.get("at") or "",
        op=line.get("op"),
        exact=True,
    )


@dataclass(frozen=True)
class CanarySaid:
    """What the newest graph canary on this build said of a budget."""

    budget: int
    verdict: str
    reason: str
    at: float


def canary_at(lines: Iterable[Mapping[str, Any]], arch: str, build: str, budget: int) -> CanarySaid | None:
    """The newest word on ``budget`` for this hardware and build; None without any."""
    newest: CanarySaid | None = None
    for line in lines:
        if line.get("kind") != CANARY or (line.get("arch") or "", line.get("build") or "") != (arch, build):
            continue
        said = (line.get("budgets") or {}).get(str(budget))
        if said is not None:
            newest = CanarySaid(budget, str(said["verdict"]), str(said["reason"]), float(line.get("at") or 0.0))
    return newest


def canary_budget(axes: Mapping[str, AxisValue]) -> int | None:
    """The budget that a graph canary is asked about for these axes; None without a tree or without graphs.

    ``draft_tokens`` counts the rows of the verify pass, the root's with them.
    """
    if axes.get("graphs", True) is False or not speculates(axes):
        return None
    budget, rows = axes.get("budget"), axes.get("draft_tokens")
    if isinstance(budget, int):
        return budget
    return rows - 1 if isinstance(rows, int) and rows > 1 else None


def _evidence(line: Mapping[str, Any]) -> str:
    found = line.get("evidence")
    if isinstance(found, list):
        first = found[0] if found else None
        found = first.get("text") if isinstance(first, Mapping) else first
    told = f": {found}" if found else ""
    return f"{line.get('outcome')} here before, op {line.get('op')}, {line.get('cause') or 'no cause'}{told}"


def match(
    entries: Iterable[Entry | Mapping[str, Any]],
    arch: str,
    build: str,
    axes: Mapping[str, AxisValue],
    dialect: str | None = None,
) -> Entry | None:
    """The entry that speaks for these axes, or None.

    What was seen on the host for exactly these axes on this build comes before any region, and the last of it counts:
    so a commit takes the word from a shipped region. A bad region comes before a good one. ``axes`` are best those of
    the resolved command line (``axes_of``), since a profile may leave some to the base. ``dialect`` rules a region out
    only where regions name it: one of the user's own may spell the same engine's flags.
    """
    found = [from_host(entry) if isinstance(entry, Mapping) else entry for entry in entries]
    here = (arch, build, dict(axes))
    seen = [e for e in found if e.exact and (e.bad or e.good) and (e.arch, e.build, e.when) == here]
    if seen:
        return seen[-1] if seen[-1].bad else None
    regions = sorted((entry for entry in found if not entry.exact), key=lambda entry: entry.good)
    family = dialect if dialect in {entry.dialect for entry in regions} else None
    for entry in regions:
        if (family is None or entry.dialect in (None, family)) and _covers(entry, arch, build, axes):
            return _at(entry, axes)
    return None


def _covers(entry: Entry, arch: str, build: str, axes: Mapping[str, AxisValue]) -> bool:
    return (
        entry.arch == arch
        and fnmatchcase(build, entry.build)
        and all(_holds(condition, axes.get(axis, _UNSAID.get(axis))) for axis, condition in entry.when.items())
    )


def _holds(condition: AxisValue, value: AxisValue | None) -> bool:
    compared = _CONDITION.fullmatch(condition) if isinstance(condition, str) else None
    if compared is None:
        return type(value) is type(condition) and value == condition
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return bool(_COMPARISONS[compared[1]](value, float(compared[2])))


def _at(entry: Entry, axes: Mapping[str, AxisValue]) -> Entry:
    """The region at one point of it, with the cause that was seen there."""
    from dataclasses import replace

    value = axes.get(entry.cause_axis) if entry.cause_axis else None
    return replace(entry, cause=entry.causes.get(value) if value is not None else None)
