"""Problems about lists and tables."""

from __future__ import annotations

from ddtune.gate.coding_problems.problem import Problem

LISTS: tuple[Problem, ...] = (
    Problem(
        "flatten",
        "def flatten(nested: list) -> list:",
        "nested holds integers and lists that may hold lists again, to any depth. It returns all integers in the order "
        "in which they stand, in one list without lists.",
        (
            (([],), []),
            (([1, [2, [3, []]]],), [1, 2, 3]),
            (([[[[7]]], 8],), [7, 8]),
            (([1, 2],), [1, 2]),
            (([[], [[]]],), []),
        ),
    ),
    Problem(
        "two_sum",
        "def two_sum(nums: list[int], target: int) -> list[int]:",
        "It returns the positions i < j of two different elements of nums that add up to target; there is at most one "
        "such pair. Without one it returns the empty list.",
        (
            (([2, 7, 11, 15], 9), [0, 1]),
            (([3, 3], 6), [0, 1]),
            (([5, 1, 4], 10), []),
            (([-1, 6, -3, 8], 5), [0, 1]),
            (([4], 8), []),
        ),
    ),
    Problem(
        "binary_search",
        "def binary_search(items: list[int], target: int) -> int:",
        "items is sorted in rising order without repeats. It returns the position of target in items, or -1 when it is "
        "not there. It must not look at every element.",
        (
            (([], 1), -1),
            (([1, 3, 5, 7], 1), 0),
            (([1, 3, 5, 7], 7), 3),
            (([1, 3, 5, 7], 4), -1),
            (([2], 2), 0),
            ((list(range(0, 200, 2)), 126), 63),
        ),
    ),
    Problem(
        "transpose",
        "def transpose(matrix: list[list[int]]) -> list[list[int]]:",
        "matrix is a list of rows of equal length. It returns the matrix with rows and columns exchanged; an empty "
        "matrix stays empty.",
        (
            (([],), []),
            (([[1, 2], [3, 4], [5, 6]],), [[1, 3, 5], [2, 4, 6]]),
            (([[1, 2, 3]],), [[1], [2], [3]]),
            (([[9]],), [[9]]),
        ),
    ),
    Problem(
        "chunk",
        "def chunk(items: list, size: int) -> list[list]:",
        "It cuts items into lists of size elements each, in order; the last list holds what is left over and may be "
        "shorter. size is at least 1.",
        (
            (([], 3), []),
            (([1, 2, 3], 2), [[1, 2], [3]]),
            (([1, 2, 3, 4], 2), [[1, 2], [3, 4]]),
            (([1], 5), [[1]]),
        ),
    ),
    Problem(
        "rotate_right",
        "def rotate_right(items: list, places: int) -> list:",
        "It returns a new list in which each element has moved places positions to the right, and what falls off the "
        "end comes in again at the front. places is not negative and may be larger than the list.",
        (
            (([], 4), []),
            (([1, 2, 3, 4], 1), [4, 1, 2, 3]),
            (([1, 2, 3, 4], 6), [3, 4, 1, 2]),
            (([1, 2, 3], 0), [1, 2, 3]),
            (([1, 2, 3], 3), [1, 2, 3]),
        ),
    ),
    Problem(
        "second_largest",
        "def second_largest(nums: list[int]) -> int | None:",
        "It returns the second largest of the different values in nums, None when there are fewer than two different "
        "values.",
        (
            (([],), None),
            (([5],), None),
            (([5, 5],), None),
            (([1, 2, 3],), 2),
            (([9, 9, 4],), 4),
            (([-7, -2, -5],), -5),
        ),
    ),
    Problem(
        "remove_repeats",
        "def remove_repeats(items: list) -> list:",
        "It returns the items without repeats; of equal items the first one stays, and the order of those that stay "
        "does not change.",
        (
            (([],), []),
            (([3, 1, 3, 2, 1],), [3, 1, 2]),
            ((["b", "a", "b"],), ["b", "a"]),
            (([1, 1, 1],), [1]),
        ),
    ),
    Problem(
        "window_sums",
        "def window_sums(nums: list[int], width: int) -> list[int]:",
        "It returns the sums of all runs of width neighbouring elements of nums, from left to right. When nums is "
        "shorter than width it returns the empty list. width is at least 1.",
        (
            (([1, 2, 3, 4], 2), [3, 5, 7]),
            (([1, 2], 3), []),
            (([4, -1, 5], 3), [8]),
            (([7], 1), [7]),
            (([], 1), []),
        ),
    ),
    Problem(
        "best_run",
        "def best_run(nums: list[int]) -> int:",
        "nums has at least one element. It returns the largest sum that any run of one or more neighbouring elements "
        "has.",
        (
            (([3],), 3),
            (([-4, -1, -3],), -1),
            (([2, -1, 2, -5, 4],), 4),
            (([5, -2, 6],), 9),
            (([-2, 1, -3, 4, -1, 2, 1, -5, 4],), 6),
        ),
    ),
    Problem(
        "spiral",
        "def spiral(matrix: list[list[int]]) -> list[int]:",
        "matrix is a list of rows of equal length. It returns all elements in the order of a walk that begins at the "
        "top left, goes right first, and turns right wherever it cannot go on.",
        (
            (([],), []),
            (([[1, 2, 3], [4, 5, 6], [7, 8, 9]],), [1, 2, 3, 6, 9, 8, 7, 4, 5]),
            (([[1, 2, 3, 4]],), [1, 2, 3, 4]),
            (([[1], [2], [3]],), [1, 2, 3]),
            (([[1, 2], [3, 4], [5, 6]],), [1, 2, 4, 6, 5, 3]),
            (([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]],), [1, 2, 3, 6, 9, 12, 11, 10, 7, 4, 5, 8]),
        ),
    ),
)
