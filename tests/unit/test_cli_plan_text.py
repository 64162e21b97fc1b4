"""What a plan says to a person before the question."""

from __future__ import annotations

from dataclasses import replace

from ddtune.cli.text import plan_text
from ddtune.rollout.model import Plan, ReleaseRef

STABLE = ReleaseRef("b8-nvls", "a" * 64)
PLAN = Plan(
    host="b300",
    unit="sglang-k26.service",
    kind="switch",
    origin=STABLE,
    target=ReleaseRef("b12", "b" * 64),
    stable=STABLE,
    changes=("budget 8 → 12",),
    findings=(),
    running=14,
    queued=3,
    drain_s=30.0,
    lease_s=120.0,
    confirm_deadline_s=3600.0,
    soak_s=300.0,
    expected_start_s=None,
    gate=("verbatim_copy",),
    not_planned={},
    traffic="open",
)


def test_k9_12_requests_that_run_are_counted_and_said_to_be_cut() -> None:
    text = plan_text(PLAN)
    assert "14 running, 3 queued; drained for 30 s, then cut" in text
    assert "— running" in plan_text(replace(PLAN, running=None)), "not known is not none"


def test_held_traffic_is_said_with_what_it_does_not_hold() -> None:
    assert "users see the trial's answers" in plan_text(PLAN)
    held = plan_text(replace(PLAN, traffic="held"))
    assert "refused from the stop until the quick gate has passed" in held
    assert "loopback" in held


def test_a_visit_has_no_gate_of_its_own_and_is_never_let_to_users_where_they_are_held() -> None:
    visit = replace(PLAN, kind="golden", target=ReleaseRef("ar", "c" * 64), gate=(), soak_s=0.0)
    text = plan_text(visit)
    assert "gate: none for ar, which is only asked; afterwards stable has to pass the quick gate" in text
    assert "soak" not in text
    assert "users see ar's answers while it is asked" in text
    held = plan_text(replace(visit, traffic="held"))
    assert "refused from the stop until stable starts again" in held
    assert "quick gate has passed" not in held
