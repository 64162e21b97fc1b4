"""The pure decisions of a transaction: findings, watch, outcome, timing."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path
from typing import cast

import pytest

from ddtune.cli import report
from ddtune.cli.report import OF_OUTCOME
from ddtune.gpu.model import Alarm
from ddtune.onhost import schema
from ddtune.profiles.model import Release
from ddtune.rollout import ending, preflight
from ddtune.rollout.ending import end_in
from ddtune.rollout.link import HostLink
from ddtune.rollout.model import Outcome, ReleaseRef
from ddtune.rollout.outcome import OUTCOME_OF_STATE, host_times, outcome_json, with_txn
from ddtune.rollout.plan import op_id
from ddtune.rollout.state import is_over, read_state
from ddtune.rollout.timing import Stopwatch
from ddtune.rollout.watch import TxnWatch

STABLE = ReleaseRef("b8-nvls", "a" * 64)
TARGET = ReleaseRef("b12", "b" * 64)


def begun() -> Outcome:
    return Outcome("0001-b12", "unknown", None, STABLE, TARGET, STABLE)


def answer(**more: object) -> dict[str, object]:
    return {
        "adopted": True,
        "stable": {"profile": "b8-nvls", "release": STABLE.release},
        "previous": None,
        "base": {"argv": ["/usr/bin/python3"], "cwd": "/"},
        "txn": None,
        "quarantine": [],
        "releases": [{"release": STABLE.release, "profile": "b8-nvls", "axes": {"budget": 8}}],
        "boottime": 100.0,
        **more,
    }


def test_a_host_without_adoption_blocks_every_change() -> None:
    finding = preflight.host_findings(read_state(answer(adopted=False)), "b300")[0]
    assert finding.blocks
    assert finding.cause == "not_adopted"
    assert "ddtune adopt b300" in finding.text


def test_a_busy_host_names_owner_age_and_end() -> None:
    txn = {
        "op": "0007-b16",
        "state": "TRIAL",
        "settled": False,
        "owner": {"who": "ann", "host": "laptop"},
        "armed_at": 40.0,
        "confirm_deadline": 400.0,
    }
    finding = preflight.host_findings(read_state(answer(txn=txn)), "b300")[0]
    assert finding.cause == "busy"
    assert "ann on laptop" in finding.text
    assert "since 60 s" in finding.text
    assert "300 s" in finding.text


def test_two_plans_of_one_moment_have_two_op_ids() -> None:
    history = ({"op": None}, {"op": "0004-b8-xkwvd"}, {"op": "0003-b12"})
    ids = {op_id(history, "b12") for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"0005-b12-[a-z]{5}", one) for one in ids)
    assert min(ids) > "0004-b8-xkwvd"


@pytest.mark.parametrize("name", ["", "--", "x" * 200, "B8 (nvls)", "y" * 33 + "-z"])
def test_every_op_id_is_one_that_a_host_takes(name: str) -> None:
    assert schema.op(op_id((), name)).startswith("0001-")


@pytest.mark.parametrize("settled", [True, False])
def test_a_decision_is_over_only_when_settled(settled: bool) -> None:
    assert is_over({"state": "ROLLED_BACK", "settled": settled}) is settled


def test_a_trial_is_never_over() -> None:
    assert not is_over({"state": "TRIAL", "settled": True})


def test_only_the_exact_spelling_of_a_flag_is_known() -> None:
    release = Release(("/usr/bin/python3", "-m", "x", "--cuda-graph-max-bs", "8", "--tp-size=8"), {}, (), "/")
    known = ["--cuda-graph-max-bs-decode", "--tp-size"]
    assert preflight.unknown_flags(release, known, ()) == ["--cuda-graph-max-bs"]
    assert preflight.unknown_flags(release, known, ("--cuda-graph-max-bs", "4")) == []
    assert preflight.unknown_flags(release, (), ()) == []


def test_force_opens_quarantine_and_known_bad_but_no_unknown_flag() -> None:
    state = read_state(answer(quarantine=[TARGET.release]))
    bad = preflight.KnownBad("illegal_memory_access", "2 of 2 starts died.")
    assert TARGET.release is not None
    findings = preflight.release_findings(TARGET.release, state, bad, ["--nope"], force=True)
    assert [(one.cause, one.blocks) for one in findings] == [
        ("unsupported_axis", True),
        ("quarantined", False),
        ("known_bad", False),
    ]


def test_a_running_service_that_no_release_matches_is_drift() -> None:
    state = read_state(answer())
    assert preflight.drift_findings({"pid": 7, "matches": {"release": None}}, state, "b300")[0].cause == "drift"
    assert preflight.drift_findings({"pid": 7, "matches": {"release": STABLE.release}}, state, "b300") == []


def test_an_edited_unit_file_stops_what_goes_ahead_and_no_way_back() -> None:
    assert preflight.file_findings({}, "b300", blocks=True) == []
    inspected = {"outside": {"text": "u is not as it was (ops ran as root)", "files": []}}
    ahead, back = (preflight.file_findings(inspected, "b300", blocks=blocks)[0] for blocks in (True, False))
    assert (ahead.cause, ahead.blocks, back.blocks) == ("drift", True, False)
    assert ahead.text == back.text
    assert "`ddtune adopt b300 --upgrade` takes the files as they are" in ahead.text


def test_the_watch_never_goes_back_on_a_decision() -> None:
    watch = TxnWatch("0001-b12")
    watch.update({"op": "0001-b12", "state": "TRIAL"}, 5.0)
    watch.update({"op": "0001-b12", "state": "ROLLED_BACK", "settled": False})
    assert watch.reverted.is_set()
    watch.update({"op": "0001-b12", "state": "TRIAL"})
    assert watch.txn is not None
    assert watch.txn["state"] == "ROLLED_BACK"
    assert not watch.over.is_set()
    watch.update({"op": "0001-b12", "state": "ROLLED_BACK", "settled": True})
    assert watch.over.is_set()


def test_the_watch_ignores_other_ops() -> None:
    watch = TxnWatch("0001-b12")
    watch.update({"op": "0002-b12", "state": "ROLLED_BACK", "settled": True})
    assert watch.txn is None
    assert not watch.reverted.is_set()


def test_deadlines_are_read_by_the_hosts_clock() -> None:
    watch = TxnWatch("0001-b12")
    assert watch.seconds_until("lease_until") is None
    watch.update({"op": "0001-b12", "state": "TRIAL", "lease_until": 130.0}, 100.0)
    assert watch.seconds_until("lease_until") == 30.0


def test_the_outcome_is_what_the_host_decided() -> None:
    line = {"at": 1.0, "source": "unit", "rank": "TP3", "text": "CUDA error: an illegal memory access"}
    txn = {"state": "ROLLED_BACK", "cause": "illegal_memory_access", "evidence": [line]}
    ended = with_txn(begun(), txn)
    assert (ended.outcome, ended.cause, ended.stable) == ("rolled_back", "illegal_memory_access", STABLE)
    assert ended.evidence[0].rank == "TP3"
    assert with_txn(begun(), {"state": "COMMITTED", "cause": None}).stable == TARGET
    assert with_txn(begun(), None).outcome == "unknown"


def test_the_quarantine_is_read_when_the_history_has_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "LOOK_S", 0.0)
    ended = [{"op": "0001-b12", "event": "rolled_back", "text": "x"}]
    answers = [answer(history=[]), answer(history=ended, quarantine=[TARGET.release])]

    class Link:
        async def call(self, _verb: str, **_fields: object) -> dict[str, object]:
            return answers.pop(0)

    assert asyncio.run(ending.quarantined(cast("HostLink", Link()), "0001-b12", TARGET.release))
    assert not answers
    answers = [answer(history=ended)]
    assert not asyncio.run(ending.quarantined(cast("HostLink", Link()), "0001-b12", TARGET.release))


def test_every_outcome_has_its_exit_code_and_its_json() -> None:
    assert set(OF_OUTCOME) == {*OUTCOME_OF_STATE.values(), "unknown", "refused"}
    for outcome, code in OF_OUTCOME.items():
        body = outcome_json(dataclasses.replace(begun(), outcome=outcome), "b300")
        assert body["proto"] == 1
        assert body["outcome"] == outcome
        assert 0 <= code <= 7
    assert sorted(OF_OUTCOME.values()) == [0, 3, 4, 5, 6, 7]


def test_the_page_has_every_exit_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    listed = re.findall(r"^\| (\d+) \|", page.partition("## Exit codes")[2].partition("\n## ")[0], re.M)
    codes = [value for name, value in vars(report).items() if name.isupper() and isinstance(value, int)]
    assert sorted(map(int, listed)) == sorted(codes)


def test_host_times_come_only_from_both_ends() -> None:
    assert host_times({"times": {"fatal": 1.0, "rollback_begun": 1.25}}) == {"fatal_to_begun": 0.25}
    assert host_times(None) == {}


def test_own_time_leaves_out_waiting_once() -> None:
    now = [0.0]
    watch = Stopwatch(lambda: now[0])
    with watch.phase("arm"):
        now[0] += 2.0
    with watch.phase("start", own=False):
        with watch.excluded():
            now[0] += 3.0
        now[0] += 1.0
    watch.start_phase("weights", 3.0)
    assert watch.own_s == 2.0
    assert watch.elapsed_s == 6.0
    assert watch.report() == {"arm": 2.0, "start": {"weights": 3.0}}


def test_the_history_tells_how_an_op_ended_that_a_reboot_took_away() -> None:
    history = [
        {"op": "0001-b12", "event": "armed", "outcome": None},
        {"op": "0002-b8", "event": "rolled_back", "cause": "lease_lost"},
        {"op": "0001-b12", "event": "rolled_back", "cause": "killed", "text": "the host was restarted", "at": 5.0},
        {"op": "0001-b12", "event": "late_crash"},
    ]
    ended = end_in(history, "0001-b12")
    assert ended is not None
    assert (ended["state"], ended["cause"], ended["settled"]) == ("ROLLED_BACK", "killed", True)
    assert ended["evidence"][0]["text"] == "the host was restarted"
    assert end_in(history[:1], "0001-b12") is None
    watch = TxnWatch("0001-b12")
    watch.update(ended)
    assert watch.over.is_set()
    assert with_txn(begun(), watch.txn).cause == "killed"


def test_a_lost_gpu_blocks_a_restart_and_a_warning_does_not() -> None:
    found = preflight.alarm_findings([Alarm("GPU 3 is lost", blocks=True), Alarm("GPU 1 is hot")])
    assert [(one.blocks, one.cause) for one in found] == [(True, "gpu_lost"), (False, None)]


def test_unsetting_what_is_not_set_is_the_same_release() -> None:
    adopted = Release(("/usr/bin/python3",), {}, (), "/")
    profile = Release(("/usr/bin/python3",), {"TOPK": "4"}, ("NVLS",), "/")
    assert preflight.same_in_effect(profile, adopted, {"TOPK": "4", "NVLS": None})
    assert not preflight.same_in_effect(profile, adopted, {"TOPK": "4", "NVLS": "1"})
    assert not preflight.same_in_effect(profile, adopted, {"TOPK": "8"})
    assert not preflight.same_in_effect(Release(("/bin/x",), {}, (), "/"), adopted, {})
