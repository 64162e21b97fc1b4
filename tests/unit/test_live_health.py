from __future__ import annotations

from dataclasses import replace

import pytest

from ddtune.live.health import Facts, judge

UP = Facts(
    unit_age=1.0,
    active="active",
    sub="running",
    schedulers=8,
    expected=8,
    had_all=True,
    was_open=True,
    was_ready=True,
    port="open",
    ready=200,
    answer_age=0.5,
    running=4,
    moved_age=0.5,
    busy_age=100.0,
    proof_age=2.0,
)
YOUNG = replace(UP, had_all=False, was_open=False, was_ready=False, running=None, moved_age=None, proof_age=None)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Facts(), "unknown"),
        (UP, "serving"),
        (replace(UP, unit_age=20.0), "unknown"),
        (replace(UP, active="failed"), "down"),
        (replace(UP, active="deactivating"), "busy"),
        (replace(UP, active="deactivating", port="refused"), "down"),
        (replace(UP, active="activating", sub="auto-restart"), "down"),
        (replace(UP, running=0, proof_age=700.0), "idle"),
        (replace(UP, running=0, proof_age=None), "idle"),
        (replace(UP, running=0, proof_age=3.0), "serving"),
        (replace(UP, moved_age=20.0), "busy"),
        (replace(UP, moved_age=70.0), "dead"),
        (replace(UP, moved_age=None, busy_age=5.0), "busy"),
        (replace(UP, schedulers=7), "dead"),
        (replace(UP, schedulers=None), "serving"),
        (replace(UP, port="silent"), "busy"),
        (replace(UP, port="silent", answer_age=11.0), "dead"),
        (replace(UP, port="silent", fatal=True, moved_age=4.0), "dead"),
        (replace(UP, port="refused"), "dead"),
        (replace(UP, running=0, moved_age=900.0, fatal=True), "serving"),
        (replace(UP, ready=503), "busy"),
        (replace(YOUNG, port="refused", schedulers=2), "starting"),
        (replace(YOUNG, port="refused", schedulers=8, had_all=True), "starting"),
        (replace(YOUNG, port="refused", schedulers=7, had_all=True), "dead"),
        (replace(YOUNG, port="open", ready=503), "starting"),
        (replace(YOUNG, port="silent"), "starting"),
        (replace(UP, running=None, ready=200, proof_age=None), "idle"),
        (replace(UP, running=None, ready=None, proof_age=None), "unknown"),
    ],
)
def test_one_word_for_the_service(facts: Facts, expected: str) -> None:
    assert judge(facts)[0] == expected
