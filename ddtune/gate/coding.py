"""Generated code: taken from the answer, checked before it runs, run in the sandbox, judged here."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Mapping, Sequence

from ddtune.gate.coding_problems import BY_NAME, Problem
from ddtune.gate.isolation import ALLOWED_MODULES, Isolation
from ddtune.gate.model import Answer, CheckResult, Verdict
from ddtune.gate.probe import Probe

NAME = "coding"
_FENCE = re.compile(r"```[ \t]*(?:python3?|py)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL | re.IGNORECASE)
_FORBIDDEN = frozenset(
    {
        "__builtins__",
        "__import__",
        "__loader__",
        "__spec__",
        "breakpoint",
        "compile",
        "eval",
        "exec",
        "globals",
        "open",
        "vars",
    }
)
_HARMLESS = frozenset(
    {"__init__", "__len__", "__name__", "__doc__", "__iter__", "__next__", "__repr__", "__eq__", "__lt__"}
)


def code_block(text: str) -> str | None:
    """The longest Python block of an answer, or the whole answer where it is bare code; None where there is no code."""
    blocks: list[str] = _FENCE.findall(text)
    if blocks:
        return max(blocks, key=len)
    bare = text.strip()
    return bare if bare.startswith(("def ", "from ", "import ")) else None


def refuse(code: str) -> str | None:
    """Why this code must not run even in the sandbox: what it imports or reaches for. None when it may."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "it does not parse"
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr not in _HARMLESS:
            return f"it reaches for {node.attr}"
        elif isinstance(node, ast.Name) and node.id in _FORBIDDEN:
            return f"it uses {node.id}"
        for name in names:
            if name not in ALLOWED_MODULES:
                return f"it imports {name}"
    return None


def judge_code(problem: Problem, code: str, isolation: Isolation) -> str | None:
    """None when ``code`` solves the problem, else why not. Blocks for at most the sandbox's wall time."""
    refused = refuse(code)
    if refused is not None:
        return refused
    answer = isolation.run(code, problem.name, [list(arguments) for arguments, _ in problem.tests])
    if "values" not in answer:
        return str(answer.get("error"))
    values = answer["values"]
    if not isinstance(values, list) or len(values) != len(problem.tests):
        return "it answered nonsense"
    wrong = sum(value != ["ok", expected] for value, (_, expected) in zip(values, problem.tests, strict=True))
    return f"{wrong} of {len(problem.tests)} hidden tests fail" if wrong else None


async def judge_all(probes: Sequence[Probe], answers: Sequence[Answer], isolation: Isolation) -> dict[str, str | None]:
    """By problem: None when solved, else why not. Problems whose answer did not come are left out."""
    came = {answer.id: answer for answer in answers if answer.error is None}
    asked = [probe for probe in probes if probe.id in came]

    async def one(probe: Probe) -> str | None:
        code = code_block(came[probe.id].text)
        if code is None:
            return "there is no code block"
        return await asyncio.to_thread(judge_code, BY_NAME[probe.expect], code, isolation)

    reasons = await asyncio.gather(*map(one, asked))
    return {probe.expect: reason for probe, reason in zip(asked, reasons, strict=True)}


def judge(judged: Mapping[str, str | None], planned: Sequence[str]) -> CheckResult:
    """The verdict over the problems that stable solves: each must be solved.

    It can exclude little: 5 of 5 puts the pass rate above 55 % with 95 % confidence, no higher.
    """
    lost = {name: reason for name, reason in judged.items() if reason is not None}
    if lost:
        name, reason = next(iter(lost.items()))
        said = f"{len(planned) - len(lost)} of {len(planned)} that stable solves; {name}: {reason}"
        return CheckResult(NAME, Verdict.FAIL, said, cause="wrong_output")
    missing = len(planned) - len(judged)
    if missing or not planned:
        return CheckResult(
            NAME, Verdict.INCONCLUSIVE, f"{missing} of {len(planned)} answers did not come", cause="gate_inconclusive"
        )
    return CheckResult(NAME, Verdict.PASS, f"{len(planned)} of {len(planned)} that stable solves")
