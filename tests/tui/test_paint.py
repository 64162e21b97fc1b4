"""What the painters make of a moment: pure, so no screen is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.content import Content

from ddtune.gate.model import CheckResult, Verdict
from ddtune.gpu.model import GpuReading
from ddtune.live.snapshot import Ages, Snapshot
from ddtune.rollout.model import Outcome, Plan, Progress, ReleaseRef
from ddtune.tui import paint_gpus, paint_outcome, paint_plan, paint_run, paint_service, paint_status, words
from ddtune.tui.view import Run, Step, View, aged
from tests.tui.fakes import moment
from tests.tui.recorded import read


def bare() -> View:
    return View(replace(moment().snapshot, service=replace(Snapshot("b300", 0.0, moment().snapshot.link).service)), 0.0)


@pytest.mark.parametrize("text", ["", "b300", "eine-lange-adresse", "日本語のホスト", "a日本語"])
@pytest.mark.parametrize("width", [2, 5, 8, 30])
def test_a_column_is_as_wide_as_it_says_whatever_its_signs(text: str, width: int) -> None:
    column = words.column(text, width)
    assert Content(column).cell_length == width
    assert column.endswith(" ")
    assert ("…" in column) == (Content(text).cell_length > width - 1)


def test_what_is_not_available_is_a_dash_and_never_zero() -> None:
    gpu = GpuReading(0, "GPU-0", "0:0", "B300")
    view = replace(bare(), snapshot=replace(bare().snapshot, gpus=(gpu,)))
    row = paint_gpus.rows(view, 80, 9)[1].plain
    assert row.count(words.NONE) == 6
    assert "0" not in row[2:]
    assert paint_gpus.rows(view, 120, 9)[1].plain.count(words.NONE) == 13
    assert all("0" not in line.plain.replace("p50", "") for line in paint_service.lines(bare(), 80, 3))


def test_a_lost_gpu_says_so() -> None:
    view = moment()
    gpus = (replace(view.snapshot.gpus[0], lost=True), *view.snapshot.gpus[1:])
    rows = paint_gpus.rows(replace(view, snapshot=replace(view.snapshot, gpus=gpus)), 80, 9)
    assert "GPU LOST" in rows[1].plain


def test_three_ticks_make_a_reading_stale() -> None:
    view = moment()
    for age, stale in ((2.9, False), (3.1, True), (None, True)):
        snapshot = replace(view.snapshot, ages=Ages(age, 0.0, 0.0))
        assert ("STALE" in paint_gpus.rows(replace(view, snapshot=snapshot), 80, 9)[0].plain) is stale


def test_a_moment_that_nothing_follows_grows_old() -> None:
    snapshot = replace(moment().snapshot, ages=Ages(1.0, None, 0.5))
    late = aged(snapshot, snapshot.at + 20)
    assert late.ages == Ages(21.0, None, 20.5)


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120, 160])
@pytest.mark.parametrize("unlocked_s", [None, 800.0, float("inf")])
@pytest.mark.parametrize("host", ["b300", "a-host-with-a-long-name.example.com"])
def test_the_line_on_top_always_says_what_matters(width: int, unlocked_s: float | None, host: str) -> None:
    view = moment()
    service = replace(view.snapshot.service, profile="b16-eager", standing="probation", health="starting")
    view = replace(view, snapshot=replace(view.snapshot, host=host, service=service), unlocked_s=unlocked_s)
    line = paint_status.status_line(view, width).plain
    assert len(line) <= width
    assert "b16-eager" in line
    assert host[:8] in line
    assert "WRITE" in line or "READ-ONLY" in line or "RO" in line.split()
    assert "sim" in line
    assert "STARTING" in line or width < 70


def step(phase: str, seconds: float = 0.0, *, at: float = 0.0, done: bool = False, check: str = "") -> Step:
    result = CheckResult(check, Verdict.PASS, "fine") if check else None
    return Step(at, Progress(phase, seconds, done=done, check=result))


def test_phases_are_told_from_progress_and_the_running_one_counts_on() -> None:
    steps = (
        step("baseline", at=0.0),
        step("baseline", 3.0, done=True),
        step("start", at=5.0),
        step("start weights", 2.0, done=True),
        step("start", 4.0, done=True),
        step("quick", at=10.0),
        step("quick", check="agreement"),
    )
    found = {one.name: one for one in paint_run.stages(Run("switch", 0.0, steps=steps), 12.5)}
    assert found["baseline"].state == "done"
    assert found["start"].parts == ("weights 2",)
    assert (found["quick"].state, found["quick"].seconds, len(found["quick"].checks)) == ("running", 2.5, 1)
    assert found["confirm"].state == "next"
    assert list(found) == list(paint_run.ORDER)


def test_a_rollback_ends_the_phase_that_failed_and_takes_the_checks_that_follow() -> None:
    steps = (step("full", at=1.0), step("rollback", at=4.0), step("full", check="verbatim_copy"))
    found = {one.name: one for one in paint_run.stages(Run("switch", 0.0, steps=steps), 9.0)}
    assert found["full"].state == "failed"
    assert found["rollback"].state == "running"
    assert [one.name for one in found["rollback"].checks] == ["verbatim_copy"]
    assert "confirm" not in found


@pytest.mark.parametrize("height", range(3, 30))
def test_phases_fit_and_the_running_one_stays_in_sight(height: int) -> None:
    view = moment("progress")
    rows = [row.plain for row in paint_run.lines(view, 80, height)]
    assert len(rows) <= height
    assert "▸" in "".join(rows) or height < 8


@pytest.mark.parametrize(
    ("txn", "says"),
    [
        (None, "nothing happens, the host is untouched"),
        ({"state": "ARMED"}, "drops the change by itself in 50 s and stays on b8-nvls"),
        ({"state": "TRIAL"}, "goes back to b8-nvls by itself in 50 s"),
        ({"state": "SOAK"}, "goes back to b8-nvls by itself in 50 s"),
        ({"state": "COMMITTING"}, "stays on b16-eager"),
        ({"state": "ROLLED_BACK"}, "goes on going back to b8-nvls by itself"),
    ],
)
def test_what_happens_if_the_laptop_is_closed_now(txn: dict[str, object] | None, says: str) -> None:
    view = moment()
    whole = None if txn is None else {"stable_profile": "b8-nvls", "candidate_profile": "b16-eager", **txn}
    if whole is not None:
        whole |= {"lease_until": 150.0, "confirm_deadline": 900.0, "settled": False}
    view = replace(view, snapshot=replace(view.snapshot, txn=whole), boottime=100.0, run=Run("switch", 0.0))
    assert says in paint_run.closing(view)


def test_a_refused_plan_offers_force_only_where_it_would_help() -> None:
    refused = read("refused", Plan)
    assert paint_plan.forceable(refused)
    drift = replace(refused.findings[0], cause="drift", forceable=False)
    assert not paint_plan.forceable(replace(refused, findings=(*refused.findings, drift)))
    assert not paint_plan.forceable(read("plan", Plan))


def test_the_plan_names_what_is_not_run_and_that_users_see_it() -> None:
    plan = replace(read("plan", Plan), not_planned={"coding": "no isolation on this machine"})
    text = "\n".join(line.plain for line in paint_plan.lines(plan, "unproven", False, 80))
    assert "coding: no isolation on this machine" in text
    assert "before it is judged" in " ".join(text.split())
    assert "to b8-nvls, by the host itself" in text


def test_every_line_keeps_its_width() -> None:
    plan = read("refused", Plan)
    for width in (58, 80, 156):
        assert all(line.cell_length <= width for line in paint_plan.lines(plan, "known-bad", False, width))


def test_an_alarm_stands_with_the_gpus_and_a_note_with_the_service() -> None:
    view = moment("gpu-lost")
    (alarm,) = view.snapshot.alarms
    noted = replace(view, snapshot=replace(view.snapshot, notes=(*view.snapshot.notes, "another thing")))
    gpus = "\n".join(line.plain for line in paint_gpus.rows(noted, 90, 12))
    service = "\n".join(line.plain for line in paint_service.lines(noted, 90, 30))
    assert alarm.text in gpus
    assert alarm.text not in service
    assert "another thing" in service
    assert alarm.text in (paint_status.banner(noted, 160) or "").plain


def test_budgets_are_told_short_and_long_with_what_they_did() -> None:
    long = "\n".join(line.plain for line in paint_service.lines(moment(), 70, 12))
    short = "\n".join(line.plain for line in paint_service.lines(moment(), 80, 5))
    for text in (long, short):
        assert "b12" in text
        assert "b16" in text
        assert "bound by host or latency" in text
    assert "garbage output" in long
    assert "known bad" in short


def test_a_frozen_gauge_and_a_second_hand_accept_length_say_so() -> None:
    view = moment()
    service = replace(view.snapshot.service, frozen=("cache_hit",), accept_source="log", graph_share=0.1)
    text = "\n".join(
        line.plain
        for line in paint_service.lines(replace(view, snapshot=replace(view.snapshot, service=service)), 90, 12)
    )
    assert "(held)" in text
    assert "by its log" in text
    assert "graphs 10 %" in text


def test_errors_have_columns_where_there_is_room_and_are_told_elsewhere() -> None:
    view = moment()
    first, second, *rest = view.snapshot.gpus
    gpus = (
        replace(first, ecc_uncorrected=2.0, nvlink_errors=1234.0),
        replace(second, ecc_uncorrected=0.0, nvlink_errors=0.0),
        replace(rest[0], ecc_uncorrected=None, nvlink_errors=None),
        *rest[1:],
    )
    view = replace(view, snapshot=replace(view.snapshot, gpus=gpus))
    head, bad, well, unknown = (line.plain for line in paint_gpus.rows(view, 120, 9)[:4])
    where = head.index("ecc")
    assert [row[where:][:10].split(None, 1) for row in (bad, well, unknown)] == [
        ["2", "1 234"],
        ["0", "0"],
        [words.NONE] * 2,
    ]
    assert all(text in paint_gpus.rows(view, 80, 9)[1].plain for text in ("ecc 2", "link 1 234"))
    assert all(text not in paint_gpus.rows(view, 80, 9)[2].plain for text in ("ecc", "link"))
    assert paint_gpus.rows(view, 92, 12)[10].plain.split() == ["errors", "ecc", words.NONE, "nvlink", words.NONE]
    known = replace(view, snapshot=replace(view.snapshot, gpus=(first, gpus[0], gpus[1])))
    assert paint_gpus.rows(known, 92, 12)[5].plain.split() == ["errors", "ecc", "2", "nvlink", "1", "234"]


def test_a_throttle_is_told_in_words_and_an_xid_on_its_gpu() -> None:
    view = moment("gpu-lost")
    gpus = [replace(gpu, throttle=("power_cap", "hw_thermal"), recovery="reset") for gpu in view.snapshot.gpus]
    rows = paint_gpus.rows(replace(view, snapshot=replace(view.snapshot, gpus=tuple(gpus))), 160, 12)
    assert "power cap, too hot" in rows[1].plain
    assert "needs reset" in rows[1].plain
    assert "Xid 31" in rows[1].plain
    assert "Xid" not in rows[2].plain


@pytest.mark.parametrize("cause", ["nvls_fabric", "killed", "wrong_output"])
def test_a_quarantine_is_told_only_where_the_host_has_one(cause: str) -> None:
    one = ReleaseRef("b8", "a" * 64)
    ended = Outcome("0007-b8", "rolled_back", cause, one, one, one)
    for quarantined in (False, True):
        found = paint_outcome.lines(replace(ended, quarantined=quarantined), None, 160)
        assert ("quarantine" in "\n".join(line.plain for line in found)) is quarantined


@pytest.mark.parametrize(
    "text",
    [
        "警告 模型输出了很多中文字符没有空格的文本会怎么样呢",
        "a\tword\nand averyveryverylongwordwithoutanend",
        "",
        "   ",
    ],
)
def test_text_is_broken_by_cells_and_loses_nothing(text: str) -> None:
    rows = words.wrapped(text, 11)
    assert rows
    assert all(Content(row).cell_length <= 11 for row in rows)
    assert "".join("".join(rows).split()) == "".join(text.split())
