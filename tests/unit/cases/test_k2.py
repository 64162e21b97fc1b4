"""Right answers (kind K2 of the field cases), and starts (K9): what an engine says, and what the gate makes of it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from ddtune.engine.model import Phase
from ddtune.gate import accept, agreement, detectors, prompts, sampling
from ddtune.gate.model import Answer, Request, Verdict
from ddtune.gate.plan import plan
from ddtune.gate.probe import Probe, generate
from ddtune.gate.reference import Reference
from ddtune.live.snapshot import Ages, Link, ServiceReading, Snapshot
from ddtune.profiles.model import GateSizes
from ddtune.profiles.store import load_profiles
from ddtune.rollout import drift
from ddtune.rollout.sights import Sight, action
from ddtune.rollout.start import StartLimits, follow_start
from tests.unit.cases.given import STARTED, Given, Watch
from tests.unit.gate_engine import Engine, Fault, healthy, near_tie, only, prompt_of, says
from tests.unit.test_gate_runner import STABLE, gate, measured
from tests.unit.test_rollout_start import Script
from tests.unit.virtual import VirtualService, in_virtual_time
from tests.unit.virtual_gate import judged

SIZES = GateSizes()


def prose(given: Given, words: int, key: str = "x") -> str:
    """A sound text of so many words."""
    rng = random.Random(f"{key}{given.sibling}")
    vocabulary = healthy(generate("a", key, 400)).text.split()
    said = [rng.choice(vocabulary)]
    while len(said) < words:
        said.append(rng.choice([word for word in vocabulary[:60] if word != said[-1]]))
    return " ".join(said)


def topic(text: str) -> Probe:
    return Probe(generate("topic", text, 4000), "continue", "prose", text)


def watched(length: Callable[[int], float], seconds: int) -> list[Sight]:
    """What a watch tells of a service with that accept length by seconds."""
    seen, found = drift.Watched(), []
    for at in range(1, seconds):
        service = ServiceReading(health="serving", running=9, accept_length=length(at), release="r1")
        seen, sight = drift.read(seen, Snapshot("b300", at, Link("up"), service=service, ages=Ages(engine=0.1)))
        if sight is not None:
            found.append(sight)
            seen = drift.acted(seen) if sight.cause != "drift" else seen
    return found


def test_k2_01(given: Given) -> None:
    """One long request, and every later answer is `!` or empty: caught behind the gate's own long prompts."""
    one = judged("poison", seed=given.number(3, 1, 99), stages=("quick", "full"))
    assert one.failed is not None
    assert (one.failed.name, one.failed.cause) == ("long_prompt", "garbage_output")
    passed = [name for name, check in one.report.checks.items() if check.verdict is Verdict.PASS]
    assert "verbatim_copy" in passed, "canaries before it were right"
    windows = [(4.4, 3.0), (1.0, 0.0), *[(1.0, float(given.number(2, 1, 9)))] * 3]
    assert accept.pinned(windows)
    assert not accept.pinned(windows[:-1]), "a window in which nothing ran says nothing"
    late = watched(lambda at: 4.4 if at < 60 else 1.0, 120)
    assert [sight.cause for sight in late] == ["accept_collapse"]


def test_k2_01_a_flush_is_no_cure(given: Given) -> None:
    """The cache emptied, the answers stay wrong; only a new start answers again."""

    async def go() -> tuple[list[Answer], list[Answer]]:
        copies = [prompts.copy(str(at), f"n{at}{given.sibling}", 40).request for at in range(4)]
        service = VirtualService("poison")
        long = prompts.long_prompts("n", "chat", SIZES, 1)[0].request
        await service.send([long, Request("flush", "/flush_cache", {}, 20.0)], 1, 100)
        return await service.send(copies, 1, 100), await VirtualService("poison").send(copies, 1, 100)

    wrong, right = in_virtual_time(go())
    assert all(set(answer.text) <= {"!"} for answer in wrong)
    assert all("!" not in answer.text for answer in right)


def test_k2_03(given: Given) -> None:
    """Right text and an accept length of exactly 1.00: pure overhead, so a profile that speculates fails."""
    rate = 1.0 if not given.sibling else random.Random(4).uniform(1.0, 1.05)
    report = gate(Engine(accept=rate))
    assert report.failed is not None
    assert (report.failed.verdict, report.failed.cause) == (Verdict.FAIL, "accept_collapse")
    assert gate(Engine(accept=rate), speculative=False).passed, "without speculation there is nothing to accept"


def test_k2_04(given: Given) -> None:
    """1.42 where 6.3 was expected: it works, and the reason says how far under."""
    expected = 6.3 if not given.sibling else given.number(63, 50, 80) / 10
    report = gate(Engine(accept=1.42), expect_accept=expected)
    assert report.passed
    reason = report.checks["accept_length"].reason
    told = re.search(r"far under the expectation \((\d+)%\)", reason)
    assert told is not None
    assert int(told[1]) == pytest.approx(100 * 1.42 / expected, abs=2)


def test_k2_06(given: Given) -> None:
    """Answers of almost no length are no answers, however fast."""
    report = gate(Engine(says("" if not given.sibling else "\n \n"), accept=1.02))
    assert report.failed is not None
    assert (report.failed.verdict, report.failed.cause) == (Verdict.FAIL, "garbage_output")
    assert "empty" in report.failed.reason


def test_k2_07(given: Given) -> None:
    """Nothing comes of a long input, short ones are fine: one long prompt is asked."""
    limit = given.number(4096, 3000, 9000)

    def short_only(request: Request, answer: Answer) -> Answer:
        return replace(answer, text="", token_ids=()) if len(prompt_of(request)) > limit else answer

    report = gate(Engine(short_only))
    assert report.failed is not None
    assert report.failed.name == "long_prompt"
    assert report.checks["verbatim_copy"].verdict is Verdict.PASS
    assert gate(Engine(short_only), measured(short_only)).not_planned["long_prompt"].startswith("stable itself")


def test_k2_09(given: Given) -> None:
    """Half of the accept length on other text is no fault; and the gate asks both arms the same prompts."""
    usual = given.number(64, 40, 80) / 10
    report = gate(Engine(accept=usual * 0.52), expect_accept=usual)
    assert report.passed
    first, second = Engine(), Engine()
    gate(first)
    gate(second)
    assert first.loads == second.loads
    rng = random.Random(given.sibling)
    mixed = watched(lambda at: rng.gauss(usual if at < 2400 else usual * 0.52, 0.2), 4000)
    assert [sight.cause for sight in mixed] == ["drift"]
    assert action("drift", "probation", "b8", None, 0.0) is None, "told, and never a reason to go back"


def test_k2_10(given: Given) -> None:
    """A high accept length is no merit of its own: it passes nothing that is wrong, and no check speaks of speed."""
    rate = given.number(56, 40, 88) / 10
    good = gate(Engine(accept=rate))
    assert good.passed
    assert not any("tok/s" in check.reason or "faster" in check.reason for check in good.checks.values())
    assert not gate(Engine(says("the the the the the the the the the the the the"), accept=rate)).passed


def continuing(count: int, gap: float = 0.2) -> Reference:
    """Answers of one word after the other, sure but for a near-tie at token 30."""
    gaps = (*[3.0] * 30, gap, *[3.0] * 69)
    first = {
        str(n): Answer(
            str(n),
            token_ids=tuple(range(100)),
            gaps=gaps,
            runners_up=(*[-1] * 30, 77, *[-1] * 69),
            finish_reason="stop",
        )
        for n in range(count)
    }
    return Reference("n", first, {name: (answer,) for name, answer in first.items()})


def test_k2_11(given: Given) -> None:
    """Cold is bit-exact, warm parts in 18 of 40: a good profile is not failed for it, and prompts are cold by nonce."""
    reference = continuing(40)
    warm = given.number(18, 10, 40)
    answers = [
        replace(answer, token_ids=(*range(30), 77, *[5] * 69), gaps=(), cached_tokens=60)
        if int(name) < warm
        else answer
        for name, answer in reference.answers.items()
    ]
    result = agreement.judge(reference, answers)
    assert result.verdict is Verdict.PASS
    assert f"{warm} were asked before and came from a warm cache" in result.reason
    for probe in prompts.continuations("nonce-1", SIZES):
        assert probe.prompt.startswith("[nonce-1")


def test_k2_12(given: Given) -> None:
    """Greedy, without speculation, and four of five runs differ at character 31: stable's own noise is the measure."""
    token = given.number(7, 5, 9)
    turn = iter(range(10_000))

    def flips(request: Request, answer: Answer) -> Answer:
        number = next(turn)
        return answer if number % 5 == 0 else near_tie(token, str(number))(request, answer)

    stable = measured(flips)
    assert stable.reference.own()[0] is not None
    assert gate(Engine(flips), stable).passed, "byte equality is no rule where stable has none"

    def early(request: Request, answer: Answer) -> Answer:
        return near_tie(1, str(next(turn)))(request, answer)

    unsure = gate(Engine(early), measured(early))
    assert unsure.failed is not None
    assert unsure.failed.verdict is Verdict.INCONCLUSIVE, "who parts from himself at once cannot judge"


def test_k2_14(given: Given) -> None:
    """What parts at token 500 is only seen by answers of several hundred tokens, and two are longer than that."""
    at = given.number(500, 300, 900)
    long = [probe for probe in prompts.continuations("n", SIZES) if limit(probe) > at]
    assert len(long) >= 2

    def late(request: Request, answer: Answer) -> Answer:
        loop = " ".join([*prose(given, at).split(), *["round and round the same old mill"] * 90])
        cut = loop.split()[: limit_of_request(request)]
        return replace(answer, text=" ".join(cut), token_ids=tuple(range(len(cut))), finish_reason="length")

    long_only = only("crowd-topic-0", late), only("crowd-topic-1", late)
    report = gate(Engine(*long_only))
    assert report.failed is not None
    assert report.failed.cause == "garbage_output"
    assert gate(Engine(*long_only), full=False).passed, "the short canaries miss it"


def limit(probe: Probe) -> int:
    return limit_of_request(probe.request)


def limit_of_request(request: Request) -> int:
    return int(request.body.get("max_tokens") or request.body["sampling_params"]["max_new_tokens"])


def test_k2_15(given: Given) -> None:
    """The gate asks as production samples, and says when a tree is accepted like a chain then."""
    probes = prompts.sampled("n", 8, replace(SIZES, sampling={"temperature": 0.7, "top_p": 0.9}))
    assert all(
        (probe.request.body.get("sampling_params") or probe.request.body)["temperature"] == 0.7 for probe in probes
    )
    assert all("temperature" not in probe.request.body for probe in prompts.sampled("n", 8, SIZES)[:4])
    tree, chain = (6.74, 5.57) if not given.sibling else (given.number(67, 50, 80) / 10, 3.1)
    text = prose(given, 60)

    def said(rate: float) -> list[Answer]:
        return [Answer(str(n), text=text, completion_tokens=400, verify_calls=round(400 / rate)) for n in range(4)]

    pairs = [(probe, replace(a, finish_reason="stop")) for probe, a in zip(probes, said(chain), strict=False)]
    close = sampling.judge(pairs, (), said(chain * 1.1))
    assert close.verdict is Verdict.PASS
    assert "warning" not in close.reason
    far = sampling.judge(pairs, (), said(max(tree, chain / 0.7)))
    assert far.verdict is Verdict.PASS
    assert "as when a tree is verified as a chain" in far.reason


def test_k2_17(given: Given) -> None:
    """Decode is well, cache and first token are not: they stand beside tokens a second, and none of them promotes."""
    hit, first_s = given.number(46, 40, 53) / 100, given.number(215, 150, 900) / 100
    watch = Watch().systemd(STARTED).unit().ready()
    for second in range(3):
        ttft = "sglang:time_to_first_token_seconds"
        watch.later(1).metrics(
            f"sglang:cache_hit_rate {hit}\nsglang:gen_throughput 303\nsglang:num_running_reqs 2\n"
            f"sglang:generation_tokens_total {300 * second}\n"
            f'{ttft}_bucket{{le="{first_s - 0.1}"}} 0\n{ttft}_bucket{{le="{first_s + 0.1}"}} {20 * second}\n'
            f'{ttft}_bucket{{le="+Inf"}} {20 * second}\n{ttft}_count {20 * second}\n'
        )
    service = watch.shown.service
    assert service.cache_hit == pytest.approx(hit)
    assert service.ttft_p50_s == pytest.approx(first_s, abs=0.1)
    planned = plan(SIZES, speculative=True, isolation=None)
    assert not {"speed", "throughput", "tokens_per_s"} & set(planned.names)


def test_k2_18(given: Given) -> None:
    """A long answer of which the last two thirds repeat a phrase of twelve words."""
    period = given.number(12, 3, 30)
    phrase = prose(given, period, "phrase")
    text = " ".join([prose(given, 1000, "head"), *[phrase] * (2000 // period)])
    answer = Answer("topic", text=text, finish_reason="length", completion_tokens=3000)
    found = [finding.detector for finding in detectors.findings(topic("How a bridge"), answer)]
    assert "loop" in found
    clean = replace(answer, text=prose(given, 3000, "clean"))
    read = detectors.judge([(topic("How a bridge"), replace(clean, text=healthy(topic("a").request).text))], ())
    assert read.verdict is Verdict.PASS
    assert "(1 ended at their limit)" in read.reason


SALAD = "lorem xarnim obefug mortel quaven drizu plohal wenjop tysert iusyla kamor ishobe "


@pytest.mark.parametrize("kind", ["special", "salad"])
def test_k2_20(given: Given, kind: str) -> None:
    """A run of special tokens; a salad of words."""
    token = "<s>" if not given.sibling else random.Random(9).choice(["<|endoftext|>", "<pad>", "[UNK]"])
    text = token * given.number(40, 20, 90) if kind == "special" else SALAD * given.number(5, 4, 9)
    report = gate(Engine(only("question", says(text)), only("topic", says(text))), full=False)
    assert report.failed is not None
    assert report.failed.cause == "garbage_output"


def test_k2_21(given: Given) -> None:
    """Equal answers prove nothing of speculation when no draft was ever accepted."""
    same: tuple[Fault, ...] = ()
    report = gate(Engine(*same, accept=1.0), measured(accept=1.0))
    assert report.checks["agreement"].verdict is Verdict.PASS
    assert report.failed is not None
    assert report.failed.cause == "accept_collapse"

    def silent(request: Request, answer: Answer) -> Answer:
        return replace(answer, verify_calls=None)

    assert gate(Engine(silent), STABLE).failed is not None, "a build that tells it on stable must tell it here"
    unknown = gate(Engine(silent), measured(silent))
    assert "does not report verify calls" in unknown.not_planned["accept_length"]


def test_k9_02(given: Given) -> None:
    """Healthy at 410 s, the first answer at 674 s: ready is the first answer, and its time stands apart."""
    healthy_at, answered_at = float(given.number(410, 300, 600)), float(given.number(674, 650, 900))
    script = Script(
        [
            (10.0, "[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=270.00 GB"),
            (healthy_at - 10, "[2026-01-01 00:06:50] The server is fired up and ready to roll!"),
            *[(1.0, f"[2026-01-01 00:06:50 TP0] compiling {n}") for n in range(900)],
        ]
    )
    phases: list[tuple[Phase, float]] = []

    async def probe() -> bool:
        return script.now >= answered_at

    limits = StartLimits(60.0, 1800.0, 1.0)
    asyncio.run(follow_start(script, probe, limits, lambda *one: phases.append(one), lambda: script.now))
    assert script.now == pytest.approx(answered_at, abs=2)
    assert phases[-1][0] is Phase.READY
    assert phases[-1][1] == pytest.approx(answered_at - healthy_at, abs=2)


def test_k9_10(given: Given) -> None:
    """Loading is not down."""
    shards = given.number(40, 5, 90)
    watch = Watch().systemd(STARTED).log(given.lines("[2026-01-01 00:00:10 TP0] Load weight begin. avail mem=270 GB"))
    for _ in range(shards):
        watch.later(5).unit().ready(None, "refused")
    service = watch.shown.service
    assert (service.health, service.phase) == ("starting", "weights")
    watch.later(5).unit(schedulers=0, active="inactive", MainPID="0").ready(None, "refused")
    assert watch.shown.service.health == "down"


def test_the_shipped_profiles_go_to_production_and_to_a_single_request() -> None:
    """Faults live at few requests and at many."""
    for name, profile in load_profiles().items():
        if name != "adopted":
            assert min(profile.gate.concurrency) == 1, name
            assert max(profile.gate.concurrency) >= 16, name
    assert max(SIZES.concurrency) >= 16
