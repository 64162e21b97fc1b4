"""The graph canary's verdicts from facts alone: no GPU, no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ddtune.gate.graph_canary import CanaryReport, Sound, judge
from ddtune.onhost import canary_mark, graph_canary, verbs_canary
from ddtune.profiles.envelope import canary_at, canary_budget, from_host, match
from ddtune.rollout.graph_canary import entry

GPU = {"t": "gpu", "uuid": "GPU-1", "name": "NVIDIA H200", "free_mib": 12000, "total_mib": 143771}
PLACE = {"t": "place", "kernel": "sglang.kernels.ops.attention.extend_attention", "device": "cuda", "torch": "2.11.0"}
SHAPES = {"t": "shapes", "source": "model", "shapes": [{"name": "gqa", "query": 9, "kv": 3}]}
INFO = {"attention_backend": "triton", "page_size": 1, "kv_cache_dtype": "auto"}
Line = dict[str, Any]


def case(budget: int, **facts: Any) -> list[Line]:
    """A case begun and done; ``facts`` replace those of a sound one."""
    at = {"budget": budget, "batch": 1, "shape": "gqa"}
    sound = {"eager": 0.0021, "replays": [0.0021] * 4, "equal": True, "stale": 0.05, "nan": True, "failure": None}
    return [{"t": "begin", **at}, {"t": "case", **at, **sound, "seconds": 0.4, **facts}]


def run(*cases: Sequence[Line], pid: int = 7, status: int | None = 0, ends: bool = True, tail: str = "") -> Line:
    lines = [GPU, PLACE, SHAPES, *(line for one in cases for line in one), *([{"t": "end"}] if ends else [])]
    return {"pid": pid, "budgets": [], "status": status, "lines": lines, "tail": tail}


def report(*runs: Line, budgets: Sequence[int] = (8,), **answer: Any) -> CanaryReport:
    whole = {"info": INFO, "backend": "triton", "runs": list(runs), "xids": [], "kernel_log": True, "seconds": 20.0}
    return judge({**whole, **answer}, budgets)


def only(found: CanaryReport) -> tuple[Sound, str]:
    (one,) = found.budgets
    return one.verdict, one.reason


def test_sound_says_what_it_measured_and_what_it_does_not_cover() -> None:
    found = report(run(case(8)))
    one = found.budgets[0]
    assert (one.verdict, one.eager_error, one.replay_error, one.stale_error) == (Sound.SOUND, 0.0021, 0.0021, 0.05)
    assert found.worst is Sound.SOUND
    assert any("padding" in text for text in found.not_covered)
    assert (found.kernel, found.gpu and found.gpu["name"]) == (PLACE["kernel"], "NVIDIA H200")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"eager": 0.0061}, "eager is off by 0.0061"),
        ({"eager": None}, "eager is off by more than"),
        ({"replays": [0.002, 0.5, 0.002, 0.002]}, "replay is off by 0.5"),
        ({"replays": [0.002, None, 0.002, 0.002]}, "replay is off by more than"),
        ({"equal": False}, "not what eager gives"),
    ],
)
def test_a_wrong_result_says_where(facts: Mapping[str, Any], words: str) -> None:
    verdict, reason = only(report(run(case(8, **facts))))
    assert verdict is Sound.WRONG
    assert words in reason


@pytest.mark.parametrize("facts", [{"stale": 0.0030}, {"nan": False}])
def test_without_its_controls_nothing_is_sound(facts: Mapping[str, Any]) -> None:
    assert only(report(run(case(8, **facts))))[0] is Sound.INCONCLUSIVE


def test_a_stale_mask_that_gives_no_number_is_seen() -> None:
    assert only(report(run(case(8, stale=None))))[0] is Sound.SOUND


def test_a_crash_ends_one_budget_and_no_other() -> None:
    crash = {"failure": "AcceleratorError: CUDA error: an illegal memory access was encountered"}
    first = run(case(8), case(12, **crash), ends=False)
    found = report(first, run(case(16), pid=8), budgets=(8, 12, 16))
    assert [one.verdict for one in found.budgets] == [Sound.SOUND, Sound.CRASH, Sound.SOUND]
    assert found.worst is Sound.CRASH


def test_a_process_that_dies_without_a_word_is_a_crash() -> None:
    dead = run(case(8)[:1], status=-6, ends=False, tail="terminate called\nwhat(): boom\n")
    verdict, reason = only(report(dead))
    assert (verdict, "status -6" in reason, "boom" in reason) == (Sound.CRASH, True, True)


def test_one_that_hangs_is_a_crash_and_the_rest_was_not_tried() -> None:
    found = report(run(case(8)[:1], status=None, ends=False), budgets=(8, 12))
    assert [one.verdict for one in found.budgets] == [Sound.CRASH, Sound.INCONCLUSIVE]


def test_a_kernel_that_cannot_be_called_is_not_covered() -> None:
    failure = {"failure": "TypeError: extend_attention_fwd() missing 1 required positional argument: 'tables'"}
    assert only(report(run(case(8, **failure), ends=False)))[0] is Sound.NOT_COVERED


def test_memory_that_goes_meanwhile_is_no_crash() -> None:
    failure = {"failure": "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."}
    assert only(report(run(case(8, **failure), ends=False)))[0] is Sound.INCONCLUSIVE


def test_an_unknown_backend_is_not_covered() -> None:
    verdict, reason = only(report(backend="trtllm_mla"))
    assert verdict is Sound.NOT_COVERED
    assert "trtllm_mla" in reason


def test_a_build_without_the_kernel_is_not_covered() -> None:
    lines = [GPU, {**PLACE, "kernel": None}]
    assert only(report({"pid": 7, "status": 0, "lines": lines, "tail": ""}))[0] is Sound.NOT_COVERED


def test_below_two_gigabytes_nothing_is_tried() -> None:
    lines = [{**GPU, "free_mib": 2047}]
    found = report({"pid": 7, "status": 0, "lines": lines, "tail": ""})
    assert found.refused is not None
    assert (found.budgets, "2047 MiB" in found.refused) == ((), True)


def test_without_a_gpu_eager_alone_is_not_covered() -> None:
    on_cpu = [{**PLACE, "device": "cpu"}, SHAPES, *case(8, eager=2e-7, replays=[], equal=None), {"t": "end"}]
    one = {"pid": 7, "status": 0, "lines": on_cpu, "tail": ""}
    verdict, reason = only(report(one))
    assert (verdict, "eager is right" in reason) == (Sound.NOT_COVERED, True)
    wrong = [{**PLACE, "device": "cpu"}, SHAPES, *case(8, eager=2e-3, replays=[], equal=None), {"t": "end"}]
    assert only(report({**one, "lines": wrong}))[0] is Sound.WRONG


def test_what_could_not_be_looked_at_is_said() -> None:
    lines = [GPU, PLACE, {**SHAPES, "source": "standard"}, *case(8), {"t": "end"}]
    info = {**INFO, "page_size": 64, "kv_cache_dtype": "fp8_e4m3"}
    found = report({"pid": 7, "status": 0, "lines": lines, "tail": ""}, kernel_log=False, info=info)
    said = " ".join(found.not_covered)
    assert all(word in said for word in ("head shapes", "kernel's log", "pages of 64", "fp8_e4m3"))


def test_an_xid_of_its_own_is_charged_to_it_and_one_of_nobody_to_nobody() -> None:
    text = "NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=python3"
    own = {"at": 1.0, "pid": 7, "text": text, "whose": "canary"}
    dead = run(case(8)[:1], status=1, ends=False, tail="gone")
    verdict, reason = only(report(dead, xids=[own]))
    assert (verdict, text in reason) == (Sound.CRASH, True)
    unclear = {"at": 1.0, "pid": None, "text": "NVRM: Xid (PCI:0000:1b:00): 31, Ch 8", "whose": "unclear"}
    assert only(report(run(case(8)), xids=[unclear]))[0] is Sound.INCONCLUSIVE
    other = {**unclear, "pid": 99, "whose": "other"}
    assert only(report(run(case(8)), xids=[other]))[0] is Sound.SOUND


MARK = {"pids": [41, 42], "began": 100.0, "ended": 120.0}


@pytest.mark.parametrize(
    ("at", "pid", "whose"),
    [
        (110.0, 42, "canary"),
        (121.0, 42, "canary"),
        (110.0, None, "unclear"),
        (110.0, 7, None),
        (99.0, None, None),
        (130.0, 42, None),
    ],
)
def test_whose_an_xid_is(at: float, pid: int | None, whose: str | None) -> None:
    assert canary_mark.charged(MARK, at, pid) == whose
    assert canary_mark.charged(None, at, pid) is None


def test_what_a_process_left_is_tried_by_the_next() -> None:
    assert graph_canary.rest([4, 8, 12], [{"t": "begin", "budget": 8}]) == [12]
    assert graph_canary.rest([4, 8, 12], [{"t": "begin", "budget": 12}, {"t": "end"}]) == []
    assert graph_canary.rest([4, 8, 12], [{"t": "gpu"}]) == []


def test_which_backend_verifies_a_tree() -> None:
    info = {"attention_backend": "triton", "speculative_attention_mode": "prefill"}
    assert verbs_canary.verify_backend(info) == "triton"
    assert verbs_canary.verify_backend({**info, "prefill_attention_backend": "fa3"}) == "fa3"
    split = {**info, "decode_attention_backend": "flashinfer", "speculative_attention_mode": "decode"}
    assert verbs_canary.verify_backend(split) == "flashinfer"
    assert verbs_canary.verify_backend({}) is None


def test_who_shares_the_heads() -> None:
    assert verbs_canary.attention_ranks({"tp_size": 8, "dp_size": 4, "enable_dp_attention": False}) == 8
    assert verbs_canary.attention_ranks({"tp_size": 8, "dp_size": 4, "enable_dp_attention": True}) == 2
    assert verbs_canary.attention_ranks({}) == 1


def test_the_envelope_keeps_it_apart_from_what_profiles_did() -> None:
    site = {"arch": "sm_90", "build": "0.5.17+1"}
    crash = {"failure": "CUDA error: an illegal memory access was encountered"}
    line = {**entry(report(run(case(8, **crash), ends=False)), site), "at": 5.0}
    assert not from_host(line).bad
    assert not from_host(line).good
    assert match([line], "sm_90", "0.5.17+1", {}) is None
    said = canary_at([line], "sm_90", "0.5.17+1", 8)
    assert said is not None
    assert (said.verdict, said.at) == ("crash", 5.0)
    later = {**entry(report(run(case(8))), site), "at": 6.0}
    newest = canary_at([line, later], "sm_90", "0.5.17+1", 8)
    assert newest is not None
    assert newest.verdict == "sound"
    assert canary_at([line], "sm_90", "0.5.18+2", 8) is None
    assert canary_at([line], "sm_90", "0.5.17+1", 12) is None


@pytest.mark.parametrize(
    ("axes", "budget"),
    [
        ({"algorithm": "ddtree", "budget": 12, "graphs": True}, 12),
        ({"algorithm": "ddtree", "budget": 12}, 12),
        ({"algorithm": "ngram", "draft_tokens": 16}, 15),
        ({"algorithm": "ddtree", "budget": 12, "graphs": False}, None),
        ({"algorithm": "none", "graphs": True}, None),
    ],
)
def test_which_budget_a_profile_is_asked_about(axes: dict[str, Any], budget: int | None) -> None:
    assert canary_budget(axes) == budget


def test_a_canary_whose_helper_was_killed_excuses_nothing_for_ever() -> None:
    running = {**MARK, "ended": 160.0}
    assert canary_mark.charged(running, 130.0, None) == "unclear"
    assert canary_mark.charged(running, 1e6, None) is None
    assert canary_mark.charged({**MARK, "ended": None}, 1e6, None) is None
