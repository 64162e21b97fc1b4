"""What a transaction teaches of its axes, written by the guard when the controller is gone."""

from __future__ import annotations

from . import clock, releases, store
from .paths import UnitPaths
from .txn import Txn


def record(paths: UnitPaths, txn: Txn) -> None:
    """Add the outcome to the host's envelope, if it is the candidate's doing and nobody has written it yet."""
    if not txn.blamed or txn.trial_invocation is None:
        return
    site = store.read_json(paths.site) or {}
    meta = releases.meta(paths, txn.candidate)
    releases.add_envelope(
        paths,
        {
            "op": txn.op,
            "by": "guard",
            "at": clock.wall(),
            "arch": site.get("arch"),
            "build": meta.get("build") or site.get("build"),
            "axes": meta.get("axes"),
            "profile": txn.candidate_profile,
            "release": txn.candidate,
            "outcome": txn.state.lower(),
            "cause": txn.cause,
            "evidence": [dict(entry) for entry in txn.evidence],
        },
    )
