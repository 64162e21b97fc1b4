"""What a healthy engine writes, and what a broken one writes instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ddtune.gate.coding_problems import BY_NAME
from ddtune.sim.engine.answers import Written, answer
from ddtune.sim.engine.garbage import GENERATORS, garbage
from ddtune.sim.engine.solutions import SOLUTIONS
from ddtune.sim.engine.vocabulary import VOCABULARY, token_id, tokens

TEXT = "Crate 4711 holds four brass hinges, a coil of wire and one\nunlabelled key -- 3 × 7 = 21.\n\n  Ünïcode stays."


def _answer(prompt: str, limit: int = 400, **more: Any) -> Written:
    given = {"output": "right", "seed": 0, "variant": "DDTREE-8-True", **more}
    return answer(prompt, limit, **given)


def _text(prompt: str, limit: int = 400, **more: Any) -> str:
    return "".join(_answer(prompt, limit, **more).tokens)


@pytest.mark.parametrize(
    "marked",
    ["<text>\n{}\n</text>", "<<<\n{}\n>>>", "```\n{}\n```", '"""\n{}\n"""', "\n----\n{}\n----", "\n\nBEGIN\n{}\nEND"],
)
def test_a_marked_text_is_copied_exactly(marked: str) -> None:
    assert _text("Repeat the following text exactly, and nothing else.\n" + marked.format(TEXT)) == TEXT


def test_a_copy_by_example_is_continued() -> None:
    prompt = "Each text is repeated exactly.\n\nText: one two\nRepeated: one two\n\nText: A b, c 7.\nRepeated:"
    assert _text(prompt) == " A b, c 7.\n"


def test_a_copy_is_cut_at_the_limit() -> None:
    written = _answer(f"Repeat the following text exactly.\n<text>\n{TEXT}\n</text>", 5)
    assert len(written.tokens) == 5
    assert not written.ended


CASES: dict[str, list[tuple[tuple[Any, ...], Any]]] = {
    "is_balanced": [(("([]{})",), True), (("([)]",), False), (("",), True), (("(",), False)],
    "merge_intervals": [(([[1, 3], [2, 6], [8, 10]],), [[1, 6], [8, 10]]), (([],), []), (([(5, 6)],), [(5, 6)])],
    "roman_to_int": [(("MCMXCIV",), 1994), (("III",), 3)],
    "longest_common_prefix": [((["flower", "flow", "flight"],), "fl"), (([],), ""), ((["a", "b"],), "")],
    "run_length_encode": [(("aaab",), [("a", 3), ("b", 1)]), (("",), [])],
    "flatten": [(([1, [2, [3, []]]],), [1, 2, 3])],
    "two_sum": [(([2, 7, 11, 15], 9), [0, 1]), (([3, 3], 6), [0, 1])],
    "is_palindrome": [(("A man, a plan, a canal: Panama",), True), (("ab",), False)],
    "word_count": [(("The cat the dog.",), {"the": 2, "cat": 1, "dog": 1})],
    "binary_search": [(([1, 3, 5, 7], 5), 2), (([1, 3], 4), -1), (([], 1), -1)],
    "primes_up_to": [((10,), [2, 3, 5, 7]), ((1,), [])],
    "transpose": [(([[1, 2], [3, 4], [5, 6]],), [[1, 3, 5], [2, 4, 6]])],
    "fizzbuzz": [((5,), ["1", "2", "Fizz", "4", "Buzz"])],
    "gcd": [((12, 18), 6)],
    "fibonacci": [((10,), 55)],
    "is_prime": [((97,), True), ((1,), False)],
    "is_anagram": [(("listen", "silent"), True)],
    "reverse_words": [(("a b c",), "c b a")],
    "chunk": [(([1, 2, 3], 2), [[1, 2], [3]])],
    "caesar_cipher": [(("Xyz!", 3), "Abc!")],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SOLUTIONS))
def test_functions_asked_for_by_name_are_right(name: str) -> None:
    text = _text(f"[nonce] Write a Python function `{name}(…)` that does what its name says. Only code.")
    assert text.startswith("```python\n")
    assert text.rstrip().endswith("```")
    scope: dict[str, Callable[..., Any]] = {}
    exec(text.split("```")[1].removeprefix("python\n"), scope)
    cases = CASES.get(name) or BY_NAME[name].tests
    for given, expected in cases:
        assert scope[name](*given) == expected


def test_a_javascript_continuation_is_no_python_answer() -> None:
    assert "```" not in _text("// Returns the n-th Fibonacci number.\nfunction fibonacci(n) {\n")


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("What is the capital of France?", "Paris"),
        ("What is 17 * 23?", "391"),
        ("List the seven days of the week.", "Sunday"),
    ],
)
def test_short_facts_are_known(question: str, fact: str) -> None:
    written = _answer(question)
    assert fact in "".join(written.tokens)
    assert written.ended


@pytest.mark.parametrize(
    ("prompt", "sign"),
    [
        ("How a suspension bridge carries its load\n\nA bridge hangs from", " the "),
        ("为什么秋天树叶会变色?\n\n秋天到来时,白天变短,气温下降,", "。"),
        ('{"stations": [{"name": "North", "opened": 1902}, {"name":', '"platforms": '),
        ("# A module.\n\ndef overlaps(a, b):\n    ", "return "),
        ("Steps:\n\n1. Turn it.\n2.", "\n3."),
        ("Wie ein Uhrwerk die Zeit misst\n\nIn einem Uhrwerk wird die Feder und das Rad", " und "),
    ],
)
def test_free_text_goes_on_in_its_own_kind(prompt: str, sign: str) -> None:
    assert sign in _text(prompt, 200)


def test_answers_are_the_same_each_time_and_sampled_ones_are_not() -> None:
    prompt = "Tell me about the harbour."
    assert _answer(prompt) == _answer(prompt)
    assert _text(prompt, salt=1) != _text(prompt, salt=2)


def test_the_limit_is_kept_and_endless_texts_reach_it() -> None:
    assert len(_answer("Go on about rivers.", 60).tokens) == 60
    assert len(_answer("What is the capital of France?", 300, endless=True).tokens) == 300


def test_near_ties_flip_late_and_seldom_between_engines() -> None:
    parted = []
    for number in range(200):
        one = _answer(f"Describe landscape {number}", 256, variant="DDTREE-8-True").tokens
        two = _answer(f"Describe landscape {number}", 256, variant="DDTREE-16-False").tokens
        parted += [next(at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)] if one != two else []
    assert 20 < len(parted) < 140
    assert min(parted) >= 40


def test_tokens_join_to_the_text_with_stable_ids() -> None:
    assert "".join(tokens(TEXT)) == TEXT
    assert token_id(" the") == token_id(" the") != token_id("the")
    assert all(0 <= token_id(token) < VOCABULARY for token in tokens(TEXT))


def test_garbage_comes_in_many_kinds_and_fills_the_limit() -> None:
    made = ["".join(garbage(f"prompt {number}", 0, 64)) for number in range(60)]
    assert len(GENERATORS) >= 5
    assert "" in made
    assert any(set(text) == {"!"} for text in made)
    assert any("<|im_end|>" in text for text in made)
    assert len({text[:12] for text in made}) > 20
    assert all(len(garbage(f"prompt {number}", 0, 64)) in (0, 64) for number in range(60))
    assert garbage("prompt 1", 0, 64) == garbage("prompt 1", 0, 64)


def test_broken_outputs_solve_and_copy_nothing() -> None:
    copy = f"Repeat the following text exactly.\n<text>\n{TEXT}\n</text>"
    for output in ("garbage", "wrong"):
        assert _text(copy, output=output) != TEXT
