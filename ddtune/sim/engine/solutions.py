"""Python functions that the engine can write when a prompt asks for one by name."""

from __future__ import annotations

from ddtune.sim.engine.solutions_more import MORE

SOLUTIONS: dict[str, str] = {
    "is_balanced": '''
def is_balanced(s):
    """Return True if the brackets in s are balanced."""
    pairs = {")": "(", "]": "[", "}": "{"}
    stack = []
    for char in s:
        if char in "([{":
            stack.append(char)
        elif char in pairs:
            if not stack or stack.pop() != pairs[char]:
                return False
    return not stack
''',
    "merge_intervals": '''
def merge_intervals(intervals):
    """Merge overlapping intervals."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    kind = type(intervals[0]) if intervals else list
    return [kind(pair) for pair in merged]
''',
    "roman_to_int": '''
def roman_to_int(s):
    """Convert a Roman numeral to an integer."""
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    total = 0
    for i, char in enumerate(s):
        value = values[char]
        if i + 1 < len(s) and value < values[s[i + 1]]:
            total -= value
        else:
            total += value
    return total
''',
    "longest_common_prefix": '''
def longest_common_prefix(words):
    """Return the longest prefix shared by all words."""
    if not words:
        return ""
    shortest, longest = min(words), max(words)
    for i, char in enumerate(shortest):
        if char != longest[i]:
            return shortest[:i]
    return shortest
''',
    "run_length_encode": '''
def run_length_encode(s):
    """Return a list of (char, count) tuples."""
    runs = []
    for char in s:
        if runs and runs[-1][0] == char:
            runs[-1] = (char, runs[-1][1] + 1)
        else:
            runs.append((char, 1))
    return runs
''',
    "flatten": '''
def flatten(nested):
    """Flatten nested lists into one list."""
    flat = []
    for item in nested:
        if isinstance(item, (list, tuple)):
            flat.extend(flatten(item))
        else:
            flat.append(item)
    return flat
''',
    "two_sum": '''
def two_sum(nums, target):
    """Return the indices of the two numbers that add up to target."""
    seen = {}
    for i, number in enumerate(nums):
        if target - number in seen:
            return [seen[target - number], i]
        seen[number] = i
    return []
''',
    "is_palindrome": '''
def is_palindrome(s):
    """Check for a palindrome, ignoring case and non-alphanumerics."""
    letters = [char.lower() for char in s if char.isalnum()]
    return letters == letters[::-1]
''',
    "word_count": '''
def word_count(text):
    """Count the words of text in lower case."""
    counts = {}
    for word in text.lower().split():
        word = word.strip(".,;:!?\\"'()[]{}")
        if word:
            counts[word] = counts.get(word, 0) + 1
    return counts
''',
    "binary_search": '''
def binary_search(items, target):
    """Return the index of target in sorted items, or -1."""
    low, high = 0, len(items) - 1
    while low <= high:
        middle = (low + high) // 2
        if items[middle] == target:
            return middle
        if items[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return -1
''',
    "primes_up_to": '''
def primes_up_to(n):
    """Return all primes up to and including n."""
    sieve = [True] * (n + 1)
    primes = []
    for number in range(2, n + 1):
        if sieve[number]:
            primes.append(number)
            for multiple in range(number * number, n + 1, number):
                sieve[multiple] = False
    return primes
''',
    "transpose": '''
def transpose(matrix):
    """Swap rows and columns."""
    return [list(row) for row in zip(*matrix)]
''',
    "fizzbuzz": '''
def fizzbuzz(n):
    """Return the FizzBuzz strings from 1 to n."""
    words = []
    for i in range(1, n + 1):
        words.append("Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0) or str(i))
    return words
''',
    "gcd": '''
def gcd(a, b):
    """Return the greatest common divisor."""
    while b:
        a, b = b, a % b
    return abs(a)
''',
    "fibonacci": '''
def fibonacci(n):
    """Return the n-th Fibonacci number, counting from 0."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
''',
    "is_prime": '''
def is_prime(n):
    """Return True if n is a prime number."""
    if n < 2:
        return False
    divisor = 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            return False
        divisor += 1
    return True
''',
    "is_anagram": '''
def is_anagram(a, b):
    """Return True if a and b hold the same letters."""
    return sorted(a) == sorted(b)
''',
    "reverse_words": '''
def reverse_words(s):
    """Return the words of s in reverse order."""
    return " ".join(reversed(s.split()))
''',
    "chunk": '''
def chunk(items, size):
    """Split items into lists of at most size elements."""
    return [list(items[i:i + size]) for i in range(0, len(items), size)]
''',
    "caesar_cipher": '''
def caesar_cipher(text, shift):
    """Shift each letter of text by shift places."""
    shifted = []
    for char in text:
        if char.isalpha():
            base = ord("A") if char.isupper() else ord("a")
            shifted.append(chr((ord(char) - base + shift) % 26 + base))
        else:
            shifted.append(char)
    return "".join(shifted)
''',
    **MORE,
}
