"""Coding problems: sound solutions pass, and each hidden test is failed by some plausible wrong one."""

from __future__ import annotations

import ast
import asyncio
import json
from typing import Any

import pytest

from ddtune.gate import coding
from ddtune.gate.coding_problems import BY_NAME, PROBLEMS
from ddtune.gate.isolation import ALLOWED_MODULES, probe
from ddtune.gate.model import Answer, Verdict
from ddtune.gate.prompts import coding as coding_prompts
from ddtune.gate.sandboxed import solve
from tests.unit.gate_engine import SOLUTIONS
from tests.unit.wrong_solutions import WRONG as LATER

# What people and models get wrong.
WRONG = {
    **LATER,
    "is_balanced": (
        "return s.count('(') == s.count(')') and s.count('[') == s.count(']') and s.count('{') == s.count('}')",
        "return bool(s) and s[0] in '([{'",
        "return not any(c in '()[]{}' for c in s)",
        """
    depth = 0
    for c in s:
        depth += (c in '([{') - (c in ')]}')
        if depth < 0:
            return False
    return True""",
        """
    while '()' in s or '[]' in s or '{}' in s:
        s = s.replace('()', '').replace('[]', '').replace('{}', '')
    return s == ''""",
        """
    stack = []
    for c in s:
        if c in '([{':
            stack.append(c)
        elif c in ')]}':
            stack.pop()
    return True""",
        "return False",
    ),
    "merge_intervals": (
        "return sorted(intervals)",
        """
    out = [intervals[0]]
    for a, b in intervals[1:]:
        if a < out[-1][1]:
            out[-1][1] = b
        else:
            out.append([a, b])
    return out""",
        "return [[min(a for a, _ in intervals), max(b for _, b in intervals)]]",
        "return [[a, b] for a, b in sorted(intervals) if a < b]",
    ),
    "roman_to_int": (
        "return sum(dict(I=1, V=5, X=10, L=50, C=100, D=500, M=1000)[c] for c in s)",
        "return {'IV': 4, 'IX': 9}.get(s, 0)",
    ),
    "longest_common_prefix": (
        """
    p = words[0]
    for w in words:
        while not w.startswith(p):
            p = p[:-1]
    return p""",
        "return min(words, key=len)",
        """
    out = ''
    for c in zip(*words):
        if len(set(c)) == 1:
            out += c[0]
    return out""",
        "return words[0].lower()[:1] if len({w.lower() for w in words}) == 1 else ''",
        """
    words = [w for w in words if w]
    a, b = min(words), max(words)
    return a[:next((i for i, c in enumerate(a) if b[i] != c), len(a))]""",
    ),
    "run_length_encode": (
        "return [(c, s.count(c)) for c in sorted(set(s))]",
        """
    out = []
    for i, c in enumerate(s):
        if i and c == s[i - 1]:
            out[-1] = (c, out[-1][1] + 1)
        elif i:
            out.append((c, 1))
    return out""",
        "return [f'{c}{s.count(c)}' for c in dict.fromkeys(s)]",
        """
    from itertools import groupby
    return [(c, len(list(g))) for c, g in groupby(s.strip().lower())] or [('', 0)]""",
    ),
}


def here(code: str, name: str) -> dict[str, Any]:
    """The sandbox's program in this process, for code of our own."""
    inputs = [json.loads(json.dumps(arguments)) for arguments, _ in BY_NAME[name].tests]
    return solve({"code": code, "function": name, "inputs": inputs, "modules": [*ALLOWED_MODULES, "os"]})


def failed(code: str, name: str) -> set[int]:
    answer = here(code, name)
    assert "values" in answer, answer
    expected = [value for _, value in BY_NAME[name].tests]
    return {at for at, value in enumerate(answer["values"]) if value != ["ok", expected[at]]}


@pytest.mark.parametrize("name", [problem.name for problem in PROBLEMS])
def test_a_sound_solution_passes_and_each_wrong_one_fails(name: str) -> None:
    assert failed(SOLUTIONS[name], name) == set()
    assert WRONG[name]
    for body in WRONG[name]:
        assert failed(f"def {name}({parameters(name)}):\n    {body}", name), body


@pytest.mark.parametrize("name", [problem.name for problem in PROBLEMS[:5]])
def test_each_hidden_test_is_failed_by_a_plausible_wrong_solution(name: str) -> None:
    caught = set().union(*(failed(f"def {name}({parameters(name)}):\n    {body}", name) for body in WRONG[name]))
    assert caught == set(range(len(BY_NAME[name].tests)))


def parameters(name: str) -> str:
    """The names in a signature."""
    function = ast.parse(f"{BY_NAME[name].signature}\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return ", ".join(argument.arg for argument in function.args.args)


def test_there_are_thirty_problems_and_more_with_the_first_five_first() -> None:
    assert len(PROBLEMS) >= 30
    assert len(BY_NAME) == len(PROBLEMS)
    assert [problem.name for problem in PROBLEMS[:2]] == ["is_balanced", "merge_intervals"]
    assert all(len(problem.tests) >= 4 for problem in PROBLEMS)


def test_the_prompt_says_the_whole_signature() -> None:
    for problem in PROBLEMS:
        assert problem.signature in problem.prompt
        assert "```python" in problem.prompt


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Here:\n```python\ndef f():\n    pass\n```\nDone.", "def f():\n    pass"),
        ("```\ndef f(): pass\n```", "def f(): pass"),
        ("```py\nx\n```\n```python\ndef longer(): pass\n```", "def longer(): pass"),
        ("```python\ndef cut(:", "def cut(:"),
        ("def f():\n    return 1\n", "def f():\n    return 1"),
        ("I cannot do that.", None),
        ("", None),
    ],
)
def test_code_is_taken_from_the_answer(text: str, code: str | None) -> None:
    assert coding.code_block(text) == code


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import re, math\nfrom collections import deque\ndef f(): pass", True),
        ("class A:\n    def __init__(self):\n        super().__init__()\nif __name__ == '__main__': pass", True),
        ("import os", False),
        ("from os import path", False),
        ("from . import secrets", False),
        ("import os.path", False),
        ("def f(): open('/etc/passwd')", False),
        ("def f(): return ().__class__.__base__.__subclasses__()", False),
        ("def f(): eval('1')", False),
        ("def f(): __import__('os')", False),
        ("def f(:", False),
        ("(" * 500, False),
        ("x = '\x00'", False),
    ],
)
def test_what_may_run_is_decided_before_it_runs(code: str, allowed: bool) -> None:
    assert (coding.refuse(code) is None) is allowed


def test_the_verdict_needs_every_problem_that_stable_solves() -> None:
    names = ("a", "b")
    assert coding.judge({"a": None, "b": None}, names).verdict is Verdict.PASS
    assert coding.judge({"a": None, "b": "wrong"}, names).cause == "wrong_output"
    assert coding.judge({"a": None}, names).verdict is Verdict.INCONCLUSIVE
    assert coding.judge({"a": "wrong"}, names).verdict is Verdict.FAIL
    assert coding.judge({}, ()).verdict is Verdict.INCONCLUSIVE


@pytest.mark.isolation
def test_answers_are_run_in_the_sandbox() -> None:
    box = probe().isolation
    assert box is not None
    probes = coding_prompts("n", 5, 400)
    answers = [Answer(one.id, text=f"```python{SOLUTIONS[one.expect]}```") for one in probes]
    answers[0] = Answer(answers[0].id, text="```python\nimport os\ndef is_balanced(s):\n    return True\n```")
    answers[1] = Answer(answers[1].id, error="no answer")
    answers[2] = Answer(answers[2].id, text="no code")
    judged = asyncio.run(coding.judge_all(probes, answers, box))
    assert judged == {
        "is_balanced": "it imports os",
        "roman_to_int": "there is no code block",
        "longest_common_prefix": None,
        "run_length_encode": None,
    }
