"""The gate's pure rules: agreement, copies, accept length, process facts, the plan, reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddtune.gate import accept, agreement, process_facts, prompts, verbatim
from ddtune.gate.baseline import Baseline
from ddtune.gate.model import Answer, CheckResult, GateReport, Verdict
from ddtune.gate.plan import FULL_TOKENS, plan
from ddtune.gate.process_facts import Expected, Facts
from ddtune.gate.reference import IDENTICAL, Reference, agreed
from ddtune.profiles.model import GateSizes, Release
from ddtune.rollout.outcome import check_json


def ids(name: str, *tokens: int) -> Answer:
    return Answer(name, token_ids=tokens, completion_tokens=len(tokens), finish_reason="stop")


def runs(start: int, other: int, length: int = 100, count: int = 6) -> dict[str, Answer]:
    """Answers equal to each other up to token ``start``, then ``other``."""
    return {str(n): ids(str(n), *range(start), *[other + n] * (length - start)) for n in range(count)}


REFERENCE = runs(100, 0)


def against(repeats: dict[str, Answer]) -> Reference:
    """Stable's answers with one further run."""
    return Reference("n", REFERENCE, {name: (answer,) for name, answer in repeats.items()})


@pytest.mark.parametrize(
    ("own", "start", "verdict"),
    [
        (100, 100, Verdict.PASS),
        (100, 40, Verdict.PASS),
        (100, 5, Verdict.PASS),
        (100, 4, Verdict.FAIL),
        (100, 0, Verdict.FAIL),
        (8, 2, Verdict.PASS),
        (8, 1, Verdict.FAIL),
        (2, 0, Verdict.INCONCLUSIVE),
    ],
)
def test_agreement_is_judged_by_stables_own(own: int, start: int, verdict: Verdict) -> None:
    known = against(runs(own, 5000))
    assert agreement.judge(known, list(runs(start, 9000).values())).verdict is verdict


def test_agreement_needs_most_prompts_and_most_answers() -> None:
    bad, good = runs(0, 9000), runs(60, 9000)
    half = [bad["0"], bad["1"], good["2"], good["3"], good["4"], good["5"]]
    assert agreement.judge(against(REFERENCE), half).verdict is Verdict.PASS
    lost = [replace(answer, error="cut by time") for answer in list(good.values())[:2]]
    assert agreement.judge(against(REFERENCE), [*lost, *list(good.values())[2:]]).verdict is Verdict.INCONCLUSIVE
    assert agreement.judge(against(REFERENCE), [*lost, *list(bad.values())[2:]]).verdict is Verdict.FAIL
    assert agreement.judge(Reference("n"), half).verdict is Verdict.INCONCLUSIVE


def test_agreement_takes_words_where_ids_are_absent_and_short_identical_answers_as_equal() -> None:
    one, two = Answer("a", text="a b c d e f g"), Answer("a", text="a b c d x f g")
    assert agreed(one, two) == 4
    assert agreed(ids("a", 1), ids("a", 1)) == IDENTICAL


def test_a_cut_answer_says_nothing_of_what_lies_behind_its_end() -> None:
    whole, cut = ids("a", 1, 2, 3, 4), replace(ids("a", 1, 2), finish_reason="length")
    assert agreed(whole, cut) == IDENTICAL
    assert agreed(whole, ids("a", 1, 2)) == 2


def sharp(count: int = 26) -> Reference:
    """Answers of which the reference was sure, but for a near-tie with token 77 at position 50."""
    gaps = (*[4.0] * 50, 0.2, *[4.0] * 49)
    runner_up = (*[-1] * 50, 77, *[-1] * 49)
    first = {
        name: replace(answer, gaps=gaps, runners_up=runner_up) for name, answer in runs(100, 0, count=count).items()
    }
    return Reference("n", first, {name: (answer,) for name, answer in first.items()})


def parted(name: str, at: int, token: int) -> Answer:
    return ids(name, *range(at), token, *[5] * (99 - at))


@pytest.mark.parametrize(
    ("at", "token", "many", "verdict"),
    [
        (50, 77, 26, Verdict.PASS),
        (50, 78, 5, Verdict.PASS),
        (50, 78, 6, Verdict.FAIL),
        (60, 77, 6, Verdict.FAIL),
        (60, 77, 5, Verdict.PASS),
    ],
)
def test_with_gaps_a_parting_is_harmless_at_a_near_tie_only(at: int, token: int, many: int, verdict: Verdict) -> None:
    """All 26 may part at a near-tie with the second choice; six anywhere else are too many."""
    reference = sharp()
    answers = [parted(name, at, token) if int(name) < many else answer for name, answer in reference.answers.items()]
    assert agreement.judge(reference, answers).verdict is verdict


def test_where_the_reference_parts_from_itself_nobody_is_suspected() -> None:
    reference = sharp()
    again = {name: (parted(name, 60, 91),) for name in reference.answers}
    noisy = replace(reference, again=again)
    answers = [parted(name, 60, 91) for name in reference.answers]
    assert agreement.judge(reference, answers).verdict is Verdict.FAIL
    assert agreement.judge(noisy, answers).verdict is Verdict.PASS


def test_the_verdict_says_whose_answers_were_the_measure() -> None:
    reference = replace(sharp(), said="the reference of stable of 2026-11-02 10:00 UTC by ana")
    assert "of 2026-11-02 10:00 UTC by ana" in agreement.judge(reference, list(reference.answers.values())).reason


TEXT = prompts.text_of("n", 90)


def copied(*texts: str) -> list[tuple[str, Answer]]:
    return [(TEXT, Answer("c", text=text)) for text in texts]


def doubled(count: int) -> str:
    words = TEXT.split()
    for at in range(3, 3 + 7 * count, 7):
        words[at] = f"{words[at]} {words[at]}"
    return " ".join(words)


@pytest.mark.parametrize(
    ("texts", "stable", "verdict"),
    [
        ((TEXT, TEXT), (1.0, 1.0), Verdict.PASS),
        ((f"```text\n{TEXT}\n```", f"<text>\n{TEXT}\n</text>"), (1.0, 1.0), Verdict.PASS),
        ((TEXT.replace(". ", ".\n"), TEXT), (1.0, 1.0), Verdict.PASS),
        ((TEXT, doubled(1)), (1.0, 1.0), Verdict.PASS),
        ((doubled(1), doubled(1)), (1.0, 1.0), Verdict.FAIL),
        ((doubled(9), TEXT), (1.0, 1.0), Verdict.FAIL),
        ((TEXT, "A different story."), (1.0, 1.0), Verdict.FAIL),
        ((TEXT[: len(TEXT) * 3 // 4],) * 2, (0.8, 0.85), Verdict.PASS),
        ((TEXT[: len(TEXT) // 2],) * 2, (0.8, 0.85), Verdict.FAIL),
        ((TEXT, TEXT), (0.1, 0.1), Verdict.FAIL),
        ((TEXT, TEXT), (), Verdict.INCONCLUSIVE),
        (("", ""), (1.0, 1.0), Verdict.FAIL),
    ],
)
def test_copies_are_held_to_stables(texts: tuple[str, ...], stable: tuple[float, ...], verdict: Verdict) -> None:
    assert verbatim.judge(copied(*texts), stable).verdict is verdict


def test_a_model_whose_copies_differ_is_held_to_its_own_noise() -> None:
    """As seen on an H200: a small model copies exactly one by one, and among 16 not quite, by any of its settings."""
    one_off = TEXT.replace(" ", " a ", 1).rsplit(" ", 3)[0]
    texts = [TEXT] * 12 + [one_off] * 4
    together = (1.0,) * 15 + (0.88,)
    assert verbatim.judge(copied(*texts), together).verdict is Verdict.PASS
    assert verbatim.judge(copied(*texts), (1.0,) * 16).verdict is Verdict.FAIL
    assert verbatim.judge(copied(*([one_off] * 12 + [TEXT] * 4)), together).verdict is Verdict.FAIL
    assert verbatim.judge(copied(*([TEXT] * 15 + ["no"])), together).verdict is Verdict.FAIL


def test_a_model_that_copies_only_what_is_shown_twice_may_go_astray_once() -> None:
    """As seen on a CPU: three of four exact, the fourth with two thirds of its words, and 143 of 144 exact before."""
    sound, stray = (1.0,) * 4, " ".join(TEXT.split()[: len(TEXT.split()) // 2])
    for texts in ([TEXT, TEXT, TEXT, stray], [TEXT] * 14 + ["no"]):
        assert verbatim.judge(copied(*texts), sound).verdict is Verdict.FAIL
        assert verbatim.judge(copied(*texts), sound, errs=True).verdict is Verdict.PASS
    for texts in ([TEXT, TEXT, "no", "no"], [stray] * 4, [TEXT.replace(" ", " a ")] * 4, ["no", "no"]):
        assert verbatim.judge(copied(*texts), sound, errs=True).verdict is Verdict.FAIL


def test_a_missing_copy_is_inconclusive_unless_the_other_is_wrong() -> None:
    lost = (TEXT, Answer("c", error="no answer"))
    assert verbatim.judge([*copied(TEXT), lost], (1.0,)).verdict is Verdict.INCONCLUSIVE
    assert verbatim.judge([*copied("no"), lost], (1.0,)).verdict is Verdict.FAIL


def test_each_nonce_makes_another_text_of_the_asked_length() -> None:
    texts = {prompts.text_of(str(n), 90) for n in range(50)}
    assert len(texts) == 50
    assert {len(text.split()) // 10 for text in texts} <= {8, 9, 10, 11}


def spec(tokens: int, calls: int | None) -> Answer:
    return Answer("s", completion_tokens=tokens, verify_calls=calls)


@pytest.mark.parametrize(
    ("answers", "verdict", "cause"),
    [
        ([spec(100, 100)], Verdict.FAIL, "accept_collapse"),
        ([spec(105, 100)], Verdict.FAIL, "accept_collapse"),
        ([spec(51, 12)], Verdict.PASS, None),
        ([spec(120, 100)], Verdict.PASS, None),
        ([spec(448, 100), spec(9, None)], Verdict.PASS, None),
        ([spec(448, None)], Verdict.INCONCLUSIVE, "gate_inconclusive"),
        ([spec(20, 8)], Verdict.INCONCLUSIVE, "gate_inconclusive"),
        ([], Verdict.INCONCLUSIVE, "gate_inconclusive"),
    ],
)
def test_accept_length(answers: list[Answer], verdict: Verdict, cause: str | None) -> None:
    result = accept.judge(answers, 4.48)
    assert (result.verdict, result.cause) == (verdict, cause)


RELEASE = Release(("python", "-m", "x", "--budget", "8"), {"TOPK": "4"}, ("DEBUG",), "/")
RIGHT = Facts(
    argv=RELEASE.argv,
    env={"TOPK": "4", "DEBUG": None},
    env_ok=True,
    invocation="i",
    n_restarts=0,
    active_state="active",
    schedulers_alive=8,
    model_id="m",
    graphs_in_use=True,
)
WANTED = Expected(RELEASE, "i", 0, 8, "m", True)


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        (replace(RIGHT, argv=(*RELEASE.argv[:-1], "9")), "drift"),
        (replace(RIGHT, argv=(*RELEASE.argv, "--more")), "drift"),
        (replace(RIGHT, env={"TOPK": "6"}, env_ok=None), "drift"),
        (replace(RIGHT, env={"TOPK": None}, env_ok=None), "drift"),
        (replace(RIGHT, env={"TOPK": "4", "DEBUG": "1"}, env_ok=None), "drift"),
        (replace(RIGHT, env_ok=False), "drift"),
        (replace(RIGHT, invocation="j"), "engine_dead"),
        (replace(RIGHT, n_restarts=1), "engine_dead"),
        (replace(RIGHT, active_state="failed"), "engine_dead"),
        (replace(RIGHT, schedulers_alive=7), "engine_dead"),
        (replace(RIGHT, model_id="other"), "wrong_output"),
    ],
)
def test_each_wrong_fact_fails(facts: Facts, cause: str) -> None:
    assert process_facts.check(RIGHT, WANTED).verdict is Verdict.PASS
    result = process_facts.check(facts, WANTED)
    assert (result.verdict, result.cause) == (Verdict.FAIL, cause)


def test_facts_that_cannot_be_read_and_graphs_that_are_off() -> None:
    assert process_facts.check(Facts(), WANTED).verdict is Verdict.INCONCLUSIVE
    off = process_facts.check(replace(RIGHT, graphs_in_use=False), WANTED)
    assert off.verdict is Verdict.PASS
    assert "warning" in off.reason


def test_facts_are_read_from_what_the_host_says() -> None:
    facts = Facts.from_inspect(
        {
            "argv": ["a", "b"],
            "env": {"TOPK": "4"},
            "release_env_ok": True,
            "matches": {"release": "sha"},
            "schedulers": [{"pid": 1, "state": "S"}, {"pid": 2, "state": "Z"}],
            "active_state": "active",
        },
        model_id="m",
    )
    assert (facts.argv, facts.schedulers_alive, facts.release, facts.model_id) == (("a", "b"), 1, "sha", "m")
    assert Facts.from_inspect({"schedulers": None}).schedulers_alive is None


PRODUCTION = GateSizes(concurrency=(1, 2, 8, 32, 128))


def test_the_whole_plan_stays_within_its_tokens() -> None:
    made = plan(PRODUCTION, speculative=True, isolation="bubblewrap")
    assert made.names[:5] == ("process_facts", "verbatim_copy", "agreement", "detectors", "accept_length")
    assert set(made.names) >= {"coding", "soak", "concurrency_2", "concurrency_8", "concurrency_32", "concurrency_128"}
    assert made.levels() == (1, 2, 8, 32, 128)
    assert made.not_planned == {}
    assert sum(check.tokens for check in made.checks if check.stage == "full") <= FULL_TOKENS


def test_what_cannot_apply_is_not_planned_and_says_why() -> None:
    made = plan(PRODUCTION, speculative=False, isolation=None, isolation_reason="bwrap is not here")
    assert made.not_planned["accept_length"] == "the profile does not speculate"
    assert "bwrap is not here" in made.not_planned["coding"]
    assert not {"accept_length", "coding"} & set(made.names)
    weak = Baseline("n", True, coding=("is_balanced",), coding_asked=5, accept_length=None)
    made = plan(PRODUCTION, speculative=True, isolation="unshare", baseline=weak)
    assert "stable itself solves 1 of 5" in made.not_planned["coding"]
    assert "does not report" in made.not_planned["accept_length"]
    # A stable that does not speculate says nothing of the build.
    made = plan(PRODUCTION, speculative=True, isolation="unshare", baseline=replace(weak, speculative=False))
    assert "accept_length" in made.names


def test_stable_after_a_rollback_is_not_held_to_the_candidates_speculation() -> None:
    made = plan(PRODUCTION, speculative=True, isolation=None, expect_accept=9.0)
    plain = made.on_stable(Baseline("n", speculative=False))
    assert not plain.has("quick", "accept_length")
    assert plain.has("quick", "verbatim_copy")
    tree = made.on_stable(Baseline("n", speculative=True, accept_length=4.5))
    assert tree.has("quick", "accept_length")
    assert tree.expect_accept is None


def test_copies_and_agreement_cannot_be_left_out_and_the_rest_can() -> None:
    skip = ("verbatim_copy", "agreement", "coding", "concurrency", "soak")
    made = plan(replace(PRODUCTION, skip=skip), speculative=True, isolation="unshare")
    assert {"verbatim_copy", "agreement"} <= set(made.names)
    assert made.levels() == ()
    assert set(made.not_planned) == {"coding", "concurrency", "soak"}
    one = plan(replace(PRODUCTION, skip=("concurrency_128",)), speculative=True, isolation="unshare")
    assert one.levels() == (1, 2, 8, 32)


def test_a_level_that_does_not_fit_is_said_and_the_highest_fits_first() -> None:
    made = plan(replace(PRODUCTION, concurrency=(8, 128, 256, 300)), speculative=True, isolation=None)
    assert made.levels() == (8, 128, 300)
    assert set(made.not_planned) == {"coding", "concurrency_256"}


def test_reports_merge_to_the_worse_verdict_and_add_costs() -> None:
    good = CheckResult("a", Verdict.PASS, "fine", 1.0, 10)
    unsure = CheckResult("a", Verdict.INCONCLUSIVE, "cut", 2.0, 5, "gate_inconclusive")
    bad = CheckResult("b", Verdict.FAIL, "wrong", 1.0, 1, "wrong_output")
    report = GateReport({"a": good}).merged(GateReport({"a": unsure, "b": bad}, {"c": "left out"}))
    assert check_json(report.checks["a"]) == {
        "verdict": "inconclusive",
        "reason": "cut",
        "seconds": 3.0,
        "tokens": 15,
        "budget": None,
    }
    assert report.failed == bad
    assert not report.passed
    assert GateReport({"a": good}).passed
    assert not GateReport().passed


def test_answers_travel_as_dicts() -> None:
    answer = Answer.from_dict({"id": "a", "text": "t", "token_ids": [1, 2], "unknown": 3})
    assert (answer.id, answer.text, answer.token_ids, answer.error) == ("a", "t", (1, 2), None)


def test_process_that_cannot_be_read_is_inconclusive() -> None:
    """Neither another argv, nor a missing variable, nor dead schedulers: nobody could look."""
    release = Release(("python3", "-m", "sglang"), {"A": "1"}, (), "/")
    unread = {"argv": None, "pid": None, "env": {}, "schedulers": [], "active_state": "active", "invocation": "i"}
    expected = Expected(release=release, invocation="i", n_restarts=0, schedulers=8)
    found = process_facts.check(Facts.from_inspect(unread), expected)
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, "gate_inconclusive")
