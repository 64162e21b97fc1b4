"""Detectors: silent on healthy texts of many kinds, loud on garbage of many kinds."""

from __future__ import annotations

import random
import string

import pytest

from ddtune.gate import detectors
from ddtune.gate.model import Answer, Verdict
from ddtune.gate.probe import Probe, chat

HEALTHY = {
    "prose": (
        "Ice floats because water, unlike most liquids, takes up more room when it freezes. The molecules arrange "
        "themselves in an open lattice, so that the same mass has a larger volume. A block of ice therefore weighs "
        "less than the water that it pushes aside, and about a tenth of it stays above the surface. That that happens "
        "at all is a matter of hydrogen bonds, which had had no such order in the liquid."
    ),
    "chinese": (
        "秋天到来时，白天变短，气温下降，树木不再产生叶绿素。原来被绿色遮住的黄色和橙色色素便显露出来，"
        "而红色则来自树叶里积累的糖分。等到叶柄处形成一层隔离的细胞，风一吹，叶子就落下来了。"
    ),
    "german": (
        "In einem mechanischen Uhrwerk treibt eine gespannte Feder das Räderwerk an. Die Hemmung gibt die Kraft in "
        "gleichmäßigen Schritten frei, sodass die Zeiger nicht auf einmal ablaufen. Größe und Überhöhung spielen dabei "
        "eine Rolle, und die, die es prüfen, brauchen Geduld."
    ),
    "code": (
        "```python\nfrom __future__ import annotations\n\n\ndef overlaps(a: list[int], b: list[int]) -> bool:\n"
        '    """Whether two intervals share a point."""\n    return a[0] <= b[1] and b[0] <= a[1]\n\n\n'
        "def width(a: list[int]) -> int:\n    return a[1] - a[0]\n```\n"
    ),
    "list": "Monday\nTuesday\nWednesday\nThursday\nFriday\nSaturday\nSunday",
    "table": (
        "| planet | order | mass |\n|---|---|---|\n"
        + "".join(f"| planet {n} | {n} | {n * 3.1:.2f} |\n" for n in range(1, 9))
        + "\n" + "-" * 80 + "\n"
    ),
    "numbers": ", ".join(str(n) for n in range(1, 200)),
    "zeros": "\n".join(" ".join("1" if row == column else "0" for column in range(9)) for row in range(9)),
    "times": "\n".join(f"{a} x {b} = {a * b}" for a in range(1, 13) for b in range(1, 13)),
    "json": '{"stations": [' + ", ".join(f'{{"name": "Quay {n}", "opened": {1900 + n}}}' for n in range(20)) + "]}",
    "markdown": (
        "## Steps\n\n1. **Turn** the bicycle upside down.\n2. Open the brake.\n3. Take the wheel out.\n\n> Keep the "
        "nuts together.\n\n```sh\nlever --under bead\n```\n\n*Note:* 5 bar ≈ 72 psi; π ≈ 3.14159, Δp = ρgh.\n"
    ),
    "hex": "\n".join(random.Random(n).randbytes(16).hex() for n in range(30)),
    "short": "Paris.",
    "one word": "Yes",
    "named": "The word for tide in Japanese is 潮, and the Russians say да when they mean yes.",
    "song": "No, no, no, said the sailor. Row, row, row your boat. It was very very late, he knew that that was so.",
    "questions": "What is it? It is what it is. Is it? Yes. Yes! Well, well. Who is who, and which witch is which?",
    "names": "From Walla Walla they went to Pago Pago, Baden Baden and New York New York, then to Lock lock.",
    "dialogue": '"Where are you going?" "To the mill." "To the mill?" "To the mill, yes, to the mill and back."',
}  # fmt: skip


def probe(kind: str = "prose", family: str = "question", prompt: str = "Tell me of ice.") -> Probe:
    return Probe(chat("p", prompt, 300), family, kind, prompt)


def said(text: str, finish: str = "stop", ids: tuple[int, ...] = (), reasoning: str = "") -> Answer:
    return Answer("p", text=text, token_ids=ids, finish_reason=finish, reasoning=reasoning, status=200)


def names(answer: Answer, asked: Probe | None = None) -> set[str]:
    return {finding.detector for finding in detectors.findings(asked or probe(), answer)}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_texts_are_silent(name: str) -> None:
    kind = {"chinese": "chinese", "german": "german", "code": "code", "json": "data"}.get(name, "list")
    kind = "prose" if name in {"prose", "short", "one word", "song", "questions", "dialogue"} else kind
    prompt = "为什么秋天树叶会变色？" if name == "chinese" else "Tell me of ice."
    asked = probe(kind, "code" if name == "code" else "question", prompt)
    for finish in ("stop", "length"):
        assert detectors.findings(asked, said(HEALTHY[name], finish)) == []


def test_a_character_cut_at_the_limit_is_no_garbage() -> None:
    assert names(said("The word is \u6f6e and the next\ufffd", "length")) == set()
    assert names(said("The word is \u6f6e and the next\ufffd", "stop")) == {"replacement"}


def _words(rng: random.Random, count: int) -> list[str]:
    stems = (
        "lantern",
        "copper",
        "orbit",
        "thistle",
        "marble",
        "anchor",
        "velvet",
        "hammer",
        "cinder",
        "meadow",
        "pivot",
    )
    return [rng.choice(stems) + rng.choice(["", "s", "ing", "ed"]) for _ in range(count)]


def _mixed(rng: random.Random) -> str:
    letters = "".join(chr(rng.choice([0xE01, 0x430, 0xAC00, 0x4E00]) + rng.randrange(20)) for _ in range(6))
    return HEALTHY["prose"][:200] + letters + HEALTHY["prose"][200:]


def _specials(rng: random.Random) -> str:
    return "".join(rng.choice(["<s>", "<unk>", "<|im_end|>", "[PAD]"]) for _ in range(rng.randint(4, 60)))


def _doubled(rng: random.Random) -> str:
    out: list[str] = []
    for word in HEALTHY["prose"].split():
        out += [word, word] if rng.random() < 0.1 and word.isalpha() and len(word) > 3 else [word]
    return " ".join(out)


GARBAGE = {
    "bangs": lambda rng: "!" * rng.randint(64, 300),
    "one word": lambda rng: " ".join([rng.choice(["the", "sea", "und"])] * rng.randint(12, 80)),
    "phrase": lambda rng: " ".join(_words(rng, rng.randint(5, 14)) * rng.randint(8, 20)),
    "late loop": lambda rng: HEALTHY["prose"] + " " + " ".join(_words(rng, 12) * 30),
    "specials": _specials,
    "one special": lambda rng: "<|endoftext|>",
    "salad": lambda rng: " ".join(_words(rng, 120)),
    "letters": lambda rng: "".join(rng.choice(string.printable[:94]) for _ in range(900)),
    "scripts": _mixed,
    "thai in english": lambda rng: HEALTHY["prose"].replace("water", "น้ำเย็น", 1),
    "replacements": lambda rng: HEALTHY["prose"].replace("e", "\ufffd", rng.randint(1, 9)),
    "control": lambda rng: HEALTHY["prose"].replace(" ", "\x00", 3),
    "doubled": _doubled,
    "nothing": lambda rng: " \n" * rng.randrange(5),
    "error": lambda rng: '{"error": {"message": "internal"}}',
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("seed", range(6))
def test_garbage_is_loud(name: str, seed: int) -> None:
    text = GARBAGE[name](random.Random(f"{name}{seed}"))
    assert names(said(text, "length")), text[:200]


def test_one_token_over_and_over_is_seen_in_the_ids_alone() -> None:
    assert "repeated_token" in names(said("A quiet text.", ids=(5, *[0] * 40)))
    assert names(said("A quiet text.", ids=(5, 6, 7, 7, 7))) == set()


def test_reasoning_is_read_as_well() -> None:
    assert names(said("", reasoning="The user asks for ice.")) == set()
    assert "repeated_token" in names(said("Fine.", reasoning="!" * 80))


def test_code_that_does_not_parse_and_ends_that_are_none() -> None:
    asked = probe("code", "code")
    assert names(said("```python\ndef f(:\n    return\n```"), asked) == {"broken_code"}
    assert names(said("```python\ndef f(:\n    return", "length"), asked) == set()
    assert names(said("Fine.", "abort")) == {"finish"}
    assert names(Answer("p", text="Fine.", finish_reason=None)) == {"finish"}


def test_quirks_of_stable_are_not_held_against_a_candidate() -> None:
    asked = probe()
    looping = said("and then the sea " * 40, "length")
    quirks = detectors.quirks([asked], [looping])
    assert ("question", "loop") in quirks
    assert detectors.judge([(asked, looping)], quirks).verdict is Verdict.PASS
    assert detectors.judge([(asked, looping)], ()).verdict is Verdict.FAIL


def test_one_looping_continuation_is_no_sign_and_two_are() -> None:
    looping = said(HEALTHY["prose"] + " and on and on it goes for now" * 16, "length")
    one, two = probe(family="continue"), Probe(chat("q", "x", 9), "continue", "prose", "x")
    fine = said(HEALTHY["prose"])
    assert detectors.judge([(one, looping), (two, fine)], ()).verdict is Verdict.PASS
    assert detectors.judge([(one, looping), (two, looping)], ()).verdict is Verdict.FAIL
    assert detectors.judge([(probe(), looping)], ()).verdict is Verdict.FAIL


def test_missing_answers_are_inconclusive_but_not_silent_about_the_rest() -> None:
    lost = Answer("p", error="no answer", error_kind="timeout")
    assert detectors.judge([(probe(), lost)], ()).verdict is Verdict.INCONCLUSIVE
    assert detectors.judge([(probe(), lost), (probe(), said("!" * 99))], ()).verdict is Verdict.FAIL
    inside = Answer("p", error="scheduler died", error_kind="body", status=200)
    assert detectors.judge([(probe(), inside)], ()).cause == "garbage_output"
