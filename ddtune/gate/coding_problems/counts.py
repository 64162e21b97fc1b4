"""Problems about numbers."""

from __future__ import annotations

from ddtune.gate.coding_problems.problem import Problem

_FIRST_TEN = ("1", "2", "Fizz", "4", "Buzz", "Fizz", "7", "8", "Fizz", "Buzz")
NUMBERS: tuple[Problem, ...] = (
    Problem(
        "primes_up_to",
        "def primes_up_to(n: int) -> list[int]:",
        "It returns all prime numbers that are not greater than n, in rising order; none for n under 2.",
        (((10,), [2, 3, 5, 7]), ((1,), []), ((2,), [2]), ((25,), [2, 3, 5, 7, 11, 13, 17, 19, 23]), ((0,), [])),
    ),
    Problem(
        "fizzbuzz",
        "def fizzbuzz(n: int) -> list[str]:",
        "For each number from 1 to n it returns a string: Fizz for multiples of 3, Buzz for multiples of 5, FizzBuzz "
        "for multiples of both, and the number itself in digits for all others.",
        (
            ((5,), ["1", "2", "Fizz", "4", "Buzz"]),
            ((0,), []),
            ((6,), ["1", "2", "Fizz", "4", "Buzz", "Fizz"]),
            ((1,), ["1"]),
            ((16,), [*_FIRST_TEN, "11", "Fizz", "13", "14", "FizzBuzz", "16"]),
        ),
    ),
    Problem(
        "gcd",
        "def gcd(a: int, b: int) -> int:",
        "It returns the greatest common divisor of a and b, which is never negative; that of 0 and a number is the "
        "number's absolute value.",
        (((12, 18), 6), ((0, 5), 5), ((7, 0), 7), ((17, 5), 1), ((-8, 12), 4), ((0, 0), 0)),
    ),
    Problem(
        "fibonacci",
        "def fibonacci(n: int) -> int:",
        "It returns the n-th Fibonacci number, where the 0th is 0 and the 1st is 1. n may be as large as 90, and the "
        "answer must come at once.",
        (((0,), 0), ((1,), 1), ((10,), 55), ((90,), 2880067194370816120)),
    ),
    Problem(
        "is_prime",
        "def is_prime(n: int) -> bool:",
        "It tells whether n is a prime number. Numbers under 2 are not.",
        (((97,), True), ((1,), False), ((2,), True), ((0,), False), ((49,), False), ((-7,), False), ((9,), False)),
    ),
    Problem(
        "digit_sum",
        "def digit_sum(n: int) -> int:",
        "It returns the sum of the decimal digits of n; the sign of a negative n does not matter.",
        (((0,), 0), ((507,), 12), ((-93,), 12), ((1000,), 1)),
    ),
    Problem(
        "to_base",
        "def to_base(n: int, base: int) -> str:",
        "It returns n, which is not negative, written in base, which is from 2 to 16. Digits above nine are the small "
        "letters a to f.",
        (((0, 2), "0"), ((10, 2), "1010"), ((255, 16), "ff"), ((48, 7), "66"), ((171, 12), "123")),
    ),
    Problem(
        "prime_factors",
        "def prime_factors(n: int) -> list[int]:",
        "It returns the prime factors of n, which is at least 1, in rising order, each as often as it divides n.",
        (((1,), []), ((12,), [2, 2, 3]), ((97,), [97]), ((49,), [7, 7]), ((1001,), [7, 11, 13])),
    ),
    Problem(
        "collatz_steps",
        "def collatz_steps(n: int) -> int:",
        "n is at least 1. As long as it is not 1, an even number is halved and an odd one made three times itself and "
        "one. It returns how many steps that takes.",
        (((1,), 0), ((2,), 1), ((6,), 8), ((7,), 16), ((27,), 111)),
    ),
    Problem(
        "is_leap_year",
        "def is_leap_year(year: int) -> bool:",
        "It tells whether a year of the Gregorian calendar has a 29th of February.",
        (((2024,), True), ((2023,), False), ((1900,), False), ((2000,), True), ((2100,), False)),
    ),
)
