"""What is known of the release that runs, from the collector's line of kind ``ddtune``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def standing(ddtune: Mapping[str, Any]) -> str | None:
    """``adopted``, ``probation``, ``proven``, ``unproven`` or ``failed``; None where no release is known to run."""
    running = ddtune.get("running")
    release = running.get("release") if isinstance(running, Mapping) else None
    if not ddtune.get("adopted") or not isinstance(release, str):
        return None
    if release in (ddtune.get("quarantine") or ()):
        return "failed"
    txn = ddtune.get("txn")
    if isinstance(txn, Mapping) and not txn.get("settled") and release == txn.get("candidate") != txn.get("stable"):
        return "unproven"
    probation = ddtune.get("probation")
    if isinstance(probation, Mapping) and probation.get("release") == release:
        over = float(ddtune.get("at") or 0.0) >= float(probation.get("until") or 0.0)
        return "proven" if over and not probation.get("ended") else "probation"
    events = [event.get("event") for event in ddtune.get("history") or () if _is_about(event, release)]
    if "committed" in events:
        return "proven"
    site = ddtune.get("site")
    if isinstance(site, Mapping) and site.get("unproven"):
        return "unproven"
    return "adopted" if "adopted" in events or release == _release(ddtune.get("stable")) else "unproven"


def _is_about(event: Any, release: str) -> bool:
    return isinstance(event, Mapping) and _release(event.get("to")) == release


def _release(named: Any) -> str | None:
    found = named.get("release") if isinstance(named, Mapping) else None
    return found if isinstance(found, str) else None
