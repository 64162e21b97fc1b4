"""What a headless watch decides: when it is sure, what it does, and what it tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddtune.engine.model import Evidence, Incident
from ddtune.live.snapshot import Link, ServiceReading, Snapshot
from ddtune.rollout import sights
from ddtune.rollout.sights import Sight

GOOD = Sight(10.0, None, "answered rightly")
HANG = Sight(20.0, "hang", "2 of 2 canaries did not come back.")
GARBAGE = Sight(25.0, "garbage_output", "one word 40 times.")
UP = Snapshot("b300", 1000.0, Link("up"), service=ServiceReading(health="dead", tokens_per_s=0.0))


def test_one_bad_canary_is_an_accident_and_two_are_not() -> None:
    assert sights.late_fault([]) is None
    assert sights.late_fault([HANG]) is None
    assert sights.late_fault([HANG, GOOD]) is None
    assert sights.late_fault([GOOD, HANG, GARBAGE]) == GARBAGE


def test_a_canary_that_waits_behind_others_is_no_hang() -> None:
    assert sights.hang_or_load(UP, 900.0) == "hang"
    moving = replace(UP, service=replace(UP.service, health="busy", tokens_per_s=120.0))
    assert sights.hang_or_load(moving, 900.0) == "slow"
    # Done meanwhile, though the rate is 0 just now.
    proven = replace(UP, service=replace(UP.service, health="idle", last_proof_s=20.0))
    assert sights.hang_or_load(proven, 900.0) == "slow"
    assert sights.hang_or_load(proven, 990.0) == "hang"
    assert sights.hang_or_load(replace(UP, link=Link("lost")), 900.0) == "link_lost"
    assert sights.hang_or_load(None, 900.0) == "link_lost"


@pytest.mark.parametrize(
    ("cause", "standing", "previous", "acted_at", "does"),
    [
        ("hang", "probation", "b8-nvls", None, "rollback"),
        ("garbage_output", "unproven", "b8-nvls", None, "rollback"),
        ("hang", "proven", "b8-nvls", None, "restart"),
        ("hang", "adopted", None, None, "restart"),
        ("hang", "probation", None, None, "restart"),
        ("hang", "probation", "b8-nvls", 9_000.0, None),
        ("hang", "probation", "b8-nvls", 6_000.0, "rollback"),
        ("slow", "probation", "b8-nvls", None, None),
        ("xid_hardware", "probation", "b8-nvls", None, None),
        ("link_lost", "probation", "b8-nvls", None, None),
    ],
)
def test_what_it_does(
    cause: str, standing: str, previous: str | None, acted_at: float | None, does: str | None
) -> None:
    assert sights.action(cause, standing, previous, acted_at, 10_000.0) == does


def test_each_end_state_has_its_notice_and_other_lines_none() -> None:
    line = {
        "op": "0007-b16",
        "kind": "switch",
        "to": {"profile": "b16", "release": "b" * 64},
        "owner": {"who": "ada", "host": "laptop"},
        "cause": "hang",
        "text": "no token for 60 s",
    }
    events = ("committed", "rolled_back", "rollback_failed", "host_action_required", "aborted", "late_crash")
    found = sights.ends("b300", [{**line, "event": event} for event in events])
    assert [notice.key for notice in found] == [f"end 0007-b16 {event}" for event in events]
    assert found[1].title == "b300: rolled back (hang)"
    assert found[1].body == "switch to b16 by ada on laptop. no token for 60 s"
    assert sights.ends("b300", [{**line, "event": event} for event in ("armed", "swapped", "judged", "adopted")]) == []


def test_no_name_of_somebody_elses_begins_a_line_of_its_own() -> None:
    owner = {"who": "eve\nb300: all is well", "host": "x\r\ny"}
    line = {"op": "1", "event": "committed", "to": {"profile": "b\n8"}, "owner": owner, "cause": "a\nb", "text": "t\n"}
    notice = sights.of_end("b300", line)
    assert notice is not None
    assert len(f"{notice.title}{notice.body}".splitlines()) == 1


def test_an_incident_names_rank_evidence_and_what_differs() -> None:
    line = Evidence(5.5, "unit", "CUDA error: an illegal memory access was encountered", "TP3")
    incident = Incident("illegal_memory_access", 5.5, (line,), rank="TP3", changed=("budget 8 → 16",))
    notice = sights.of_incident("b300", incident)
    assert notice.key == "incident illegal_memory_access 5"
    assert notice.title == "b300: illegal_memory_access (TP3)"
    assert "illegal memory access was encountered" in notice.body
    assert "budget 8 → 16" in notice.body


def test_a_watch_that_sees_nothing_says_so_once_for_each_outage() -> None:
    first = sights.blind("b300", 850.0, 150.0, "no route")
    assert first is not None
    assert first.key == "incident link_lost 850"
    assert "no route" in first.body
    assert sights.blind("b300", 950.0, 50.0, "no route") is None
