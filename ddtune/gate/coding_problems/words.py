"""Problems about text."""

from __future__ import annotations

from ddtune.gate.coding_problems.problem import Problem

WORDS: tuple[Problem, ...] = (
    Problem(
        "is_palindrome",
        "def is_palindrome(s: str) -> bool:",
        "It tells whether s reads the same from both ends when only letters and digits count and upper and lower case "
        "are the same. A text without letters and digits does.",
        (
            (("A man, a plan, a canal: Panama",), True),
            (("ab",), False),
            (("",), True),
            (("!?",), True),
            (("1a2",), False),
            (("No lemon, no melon",), True),
        ),
    ),
    Problem(
        "word_count",
        "def word_count(text: str) -> dict[str, int]:",
        "It counts the words of text, which stand between white space. Words are taken in lower case and without the "
        "signs . , ; : ! ? at their ends; what has nothing left is no word.",
        (
            (("The cat the dog.",), {"the": 2, "cat": 1, "dog": 1}),
            (("",), {}),
            (("Well... well!  ?",), {"well": 2}),
            (("half-done, half-done",), {"half-done": 2}),
        ),
    ),
    Problem(
        "is_anagram",
        "def is_anagram(a: str, b: str) -> bool:",
        "It tells whether b holds exactly the characters of a, each as often, in any order. Upper and lower case are "
        "different characters.",
        (
            (("listen", "silent"), True),
            (("aab", "abb"), False),
            (("", ""), True),
            (("Ab", "ba"), False),
            (("abc", "ab"), False),
        ),
    ),
    Problem(
        "reverse_words",
        "def reverse_words(s: str) -> str:",
        "It returns the words of s in the opposite order with one space between them, and no space at either end.",
        (
            (("a b c",), "c b a"),
            (("  two   words ",), "words two"),
            (("",), ""),
            (("one",), "one"),
        ),
    ),
    Problem(
        "caesar_cipher",
        "def caesar_cipher(text: str, shift: int) -> str:",
        "It moves each of the letters a to z and A to Z by shift places in the alphabet, from the end on at the "
        "beginning again; case stays as it is, all other characters too. shift may be negative.",
        (
            (("Xyz!", 3), "Abc!"),
            (("abc", -1), "zab"),
            (("Hello, World", 26), "Hello, World"),
            (("", 5), ""),
            (("mN", 13), "zA"),
        ),
    ),
    Problem(
        "camel_to_snake",
        "def camel_to_snake(name: str) -> str:",
        "name is a word of ASCII letters and digits in which a capital begins each part. It returns the parts in lower "
        "case with one underscore between them and none at the beginning.",
        (
            (("CamelCase",), "camel_case"),
            (("already",), "already"),
            (("aBC",), "a_b_c"),
            (("Page2Of3",), "page2_of3"),
            (("",), ""),
        ),
    ),
    Problem(
        "count_vowels",
        "def count_vowels(s: str) -> int:",
        "It returns how many characters of s are one of the vowels a, e, i, o, u, in upper or lower case.",
        (
            (("Education",), 5),
            (("rhythm",), 0),
            (("",), 0),
            (("AEIOU y",), 5),
            (("banana",), 3),
        ),
    ),
    Problem(
        "most_frequent",
        "def most_frequent(words: list[str], count: int) -> list[str]:",
        "It returns the count words that are most frequent in words, the most frequent first; words that are equally "
        "frequent stand in alphabetical order. With fewer different words it returns all of them.",
        (
            ((["b", "a", "b", "c", "a", "b"], 2), ["b", "a"]),
            ((["c", "a", "b"], 2), ["a", "b"]),
            (([], 3), []),
            ((["x"], 5), ["x"]),
            ((["z", "y", "y", "z", "a"], 1), ["y"]),
        ),
    ),
    Problem(
        "longest_word",
        "def longest_word(text: str) -> str:",
        "It returns the longest of the words of text that stand between white space; of equally long ones the first, "
        "and the empty string when there is none.",
        (
            (("a bbb cc",), "bbb"),
            (("one two",), "one"),
            (("",), ""),
            (("  tail  longest ",), "longest"),
        ),
    ),
)
