"""The coding problems, in the order in which a profile's ``coding`` takes them.

Each has hidden tests that at least one plausible wrong solution fails. Expected values stay on this side: the sandbox
only ever sees the inputs.
"""

from __future__ import annotations

from ddtune.gate.coding_problems.counts import NUMBERS
from ddtune.gate.coding_problems.first import FIRST
from ddtune.gate.coding_problems.lists import LISTS
from ddtune.gate.coding_problems.problem import Problem
from ddtune.gate.coding_problems.words import WORDS

PROBLEMS: tuple[Problem, ...] = (*FIRST, *LISTS, *WORDS, *NUMBERS)
BY_NAME = {problem.name: problem for problem in PROBLEMS}
__all__ = ["BY_NAME", "PROBLEMS", "Problem"]
