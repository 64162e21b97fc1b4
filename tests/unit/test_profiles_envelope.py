from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddtune.profiles import standing
from ddtune.profiles.envelope import from_host, match, shipped_envelope
from ddtune.profiles.model import AxisValue

ARCH, BUILD = "sm_103", "0.5.23+abc"
TREE: dict[str, AxisValue] = {"algorithm": "ddtree", "budget": 12, "graphs": True}
DAY = 86400.0


def seen(outcome: str, cause: str | None = None, **change: Any) -> dict[str, Any]:
    return {
        "arch": ARCH,
        "build": BUILD,
        "axes": TREE,
        "outcome": outcome,
        "cause": cause,
        "op": "7",
        "at": 1.0,
        **change,
    }


@pytest.mark.parametrize(
    ("budget", "cause"),
    [
        (12, "illegal_memory_access"),
        (16, "illegal_memory_access"),
        (32, "garbage_output"),
        (64, "cublas_error"),
        (14, None),
    ],
)
def test_the_known_bad_region(budget: int, cause: str | None) -> None:
    entry = match(shipped_envelope(), ARCH, BUILD, {**TREE, "budget": budget})
    assert entry is not None
    assert entry.bad
    assert entry.cause == cause
    assert "medium" in entry.text
    assert "NVLS, symmetric memory and overlap were never varied alone" in entry.confidence


@pytest.mark.parametrize(
    ("arch", "axes"),
    [
        (ARCH, {**TREE, "budget": 8}),
        (ARCH, {**TREE, "graphs": False}),
        (ARCH, {"algorithm": "none", "graphs": True}),
        (ARCH, {"algorithm": "dflash", "budget": 12, "graphs": True}),
        ("sm_120", TREE),
        ("sm_90", TREE),
        ("", TREE),
    ],
)
def test_outside_of_it(arch: str, axes: dict[str, AxisValue]) -> None:
    assert match(shipped_envelope(), arch, BUILD, axes) is None


def test_the_known_good_region() -> None:
    wide = {**TREE, "budget": 32, "nvls": False}
    entry = match(shipped_envelope(), "sm_120", BUILD, wide, "ddtree-dbguo")
    assert entry is not None
    assert (entry.bad, entry.good, entry.cause) == (False, True, None)
    assert "RTX PRO 6000" in entry.text
    failed = seen("rolled_back", "garbage_output", arch="sm_120", axes=wide)
    assert (match([*shipped_envelope(), failed], "sm_120", BUILD, wide) or entry).bad
    assert match(shipped_envelope(), ARCH, BUILD, wide) != entry


@pytest.mark.parametrize("budget", [8, 16, 32, 64])
def test_nothing_is_known_bad_on_the_second_host(budget: int) -> None:
    for graphs in (True, False):
        entry = match(shipped_envelope(), "sm_120", BUILD, {**TREE, "budget": budget, "graphs": graphs})
        assert entry is None or not entry.bad


def test_graphs_are_on_where_nothing_is_said() -> None:
    assert match(shipped_envelope(), ARCH, BUILD, {"algorithm": "ddtree", "budget": 12}) is not None


def test_dialects() -> None:
    shipped = shipped_envelope()
    assert match(shipped, ARCH, BUILD, TREE, "ddtree-pr29907") is not None
    # The user's own spelling of the same engine does not take the guard away.
    assert match(shipped, ARCH, BUILD, TREE, "site") is not None
    other = replace(shipped[0], dialect="other", when={"algorithm": "ddtree", "budget": "> 99"})
    assert match([*shipped, other], ARCH, BUILD, TREE, "other") is None


def test_a_commit_on_the_host_takes_the_word() -> None:
    shipped = shipped_envelope()
    assert match([*shipped, seen("committed")], ARCH, BUILD, TREE) is None
    assert match([*shipped, seen("committed")], ARCH, "another", TREE) is not None
    assert match([*shipped, seen("committed")], ARCH, BUILD, {**TREE, "topk": 8}) is not None
    assert match([*shipped, seen("committed"), seen("rolled_back", "cublas_error")], ARCH, BUILD, TREE) is not None
    assert match([*shipped, seen("rolled_back", "cublas_error"), seen("committed")], ARCH, BUILD, TREE) is None


def test_a_failure_on_the_host_is_known() -> None:
    fine = {**TREE, "budget": 8}
    entry = match([from_host(seen("rolled_back", "accept_collapse", axes=fine))], ARCH, BUILD, fine)
    assert entry is not None
    assert (entry.cause, entry.op) == ("accept_collapse", "7")


@pytest.mark.parametrize("cause", ["aborted", "lease_lost", "xid_hardware", "gate_inconclusive", None])
def test_an_end_without_blame_says_nothing(cause: str | None) -> None:
    fine = {**TREE, "budget": 8}
    assert match([seen("rolled_back", cause, axes=fine)], ARCH, BUILD, fine) is None
    assert match([*shipped_envelope(), seen("committed"), seen("rolled_back", cause)], ARCH, BUILD, TREE) is None


def line(event: str, release: str, at: float) -> dict[str, Any]:
    return {"event": event, "to": {"release": release, "profile": "p"}, "at": at}


def test_standings() -> None:
    adopted = {"stable": {"release": "a"}, "site": {}, "history": [line("adopted", "a", 0)]}
    assert standing.of("a", adopted) == "adopted"
    assert standing.of("b", adopted) == "unproven"
    assert standing.of("b", adopted, known_bad=True) == "known-bad"
    assert standing.of(None, adopted) == "unproven"
    assert standing.of("a", {**adopted, "site": {"standing": "unproven"}}) == "unproven"
    assert standing.of("a", {**adopted, "quarantine": ["a"]}) == "failed"


def test_probation_ends_in_proof() -> None:
    state = {
        "stable": {"release": "b"},
        "history": [line("adopted", "a", 0), line("committed", "b", 10)],
        "probation": {"release": "b", "at": 10, "until": 10 + 3 * DAY},
    }
    assert standing.of("b", state, now=20) == "probation"
    assert standing.of("b", state, now=10 + 3 * DAY) == "proven"
    assert standing.of("b", {**state, "probation": None}, now=10 + 3 * DAY) == "proven"
    assert standing.of("a", state, now=20) == "adopted"


def test_what_left_before_its_days_were_over_is_unproven() -> None:
    state = {"history": [line("committed", "b", 0), line("committed", "c", DAY)]}
    assert standing.of("b", state, now=9 * DAY) == "unproven"
    longer = {"history": [line("committed", "b", 0), line("committed", "c", 4 * DAY)]}
    assert standing.of("b", longer, now=9 * DAY) == "proven"


def test_another_build_proves_nothing() -> None:
    state = {
        "stable": {"release": "b", "meta": {"build": "old"}},
        "site": {"build": "new"},
        "history": [line("committed", "b", 0)],
    }
    assert standing.of("b", state, now=9 * DAY) == "unproven"
    assert standing.of("b", {**state, "site": {"build": "old"}}, now=9 * DAY) == "proven"
