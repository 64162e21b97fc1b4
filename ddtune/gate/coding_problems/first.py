"""The first five problems, which a short gate asks too."""

from __future__ import annotations

from ddtune.gate.coding_problems.problem import Problem

FIRST: tuple[Problem, ...] = (
    Problem(
        "is_balanced",
        "def is_balanced(s: str) -> bool:",
        "It tells whether every bracket in s is closed by one of its own kind and in the right order. The brackets are "
        "(), [] and {}; all other characters do not matter. A string without brackets is balanced.",
        (
            (("",), True),
            (("a(b[c]{d}e)f",), True),
            (("([)]",), False),
            (("((",), False),
            (("]",), False),
            (("())(",), False),
            (("{[()()]}{}",), True),
            (("no brackets here",), True),
            (("(" * 50 + ")" * 50,), True),
            (("(]",), False),
        ),
    ),
    Problem(
        "merge_intervals",
        "def merge_intervals(intervals: list[list[int]]) -> list[list[int]]:",
        "Each interval is [start, end] with start <= end, both ends included. It returns the intervals with all that "
        "overlap or touch in a point made one, sorted by start. The input may be in any order and may be empty.",
        (
            (([],), []),
            (([[1, 3], [2, 6], [8, 10], [15, 18]],), [[1, 6], [8, 10], [15, 18]]),
            (([[8, 9], [1, 4], [2, 3]],), [[1, 4], [8, 9]]),
            (([[1, 4], [4, 5]],), [[1, 5]]),
            (([[1, 10], [2, 3], [4, 5]],), [[1, 10]]),
            (([[5, 5]],), [[5, 5]]),
            (([[-3, -1], [-2, 0], [1, 2]],), [[-3, 0], [1, 2]]),
        ),
    ),
    Problem(
        "roman_to_int",
        "def roman_to_int(s: str) -> int:",
        "It returns the value of the Roman numeral s, which is valid, in capitals and between 1 and 3999.",
        (
            (("III",), 3),
            (("IV",), 4),
            (("IX",), 9),
            (("LVIII",), 58),
            (("XLIX",), 49),
            (("MCMXCIV",), 1994),
            (("CDXLIV",), 444),
            (("MMMCMXCIX",), 3999),
        ),
    ),
    Problem(
        "longest_common_prefix",
        "def longest_common_prefix(words: list[str]) -> str:",
        "It returns the longest string that every word starts with, the empty string when there is none or when the "
        "list is empty. Upper and lower case are different.",
        (
            (([],), ""),
            ((["flower", "flow", "flight"],), "fl"),
            ((["dog", "racecar", "car"],), ""),
            ((["same", "same"],), "same"),
            ((["interview", "inter"],), "inter"),
            ((["", "abc"],), ""),
            ((["alone"],), "alone"),
            ((["Apple", "apple"],), ""),
            ((["abxd", "abyd", "abzd"],), "ab"),
        ),
    ),
    Problem(
        "run_length_encode",
        "def run_length_encode(s: str) -> list[tuple[str, int]]:",
        "It returns the runs of equal characters in s in order, each as (character, how many). A character that comes "
        "back later starts a new run. The empty string gives an empty list.",
        (
            (("",), []),
            (("a",), [["a", 1]]),
            (("aaabbc",), [["a", 3], ["b", 2], ["c", 1]]),
            (("abab",), [["a", 1], ["b", 1], ["a", 1], ["b", 1]]),
            (("zzzzzzzzzzzz",), [["z", 12]]),
            (("  x",), [[" ", 2], ["x", 1]]),
            (("aAa",), [["a", 1], ["A", 1], ["a", 1]]),
        ),
    ),
)
