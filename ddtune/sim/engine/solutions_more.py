"""Further functions that a healthy engine writes when it is asked for them by name."""

from __future__ import annotations

MORE = {
    "rotate_right": '''
def rotate_right(items, places):
    """Move each item to the right, around the end."""
    if not items:
        return []
    places %= len(items)
    return items[-places:] + items[:-places] if places else list(items)
''',
    "second_largest": '''
def second_largest(nums):
    """Return the second largest of the different values."""
    values = sorted(set(nums))
    return values[-2] if len(values) > 1 else None
''',
    "remove_repeats": '''
def remove_repeats(items):
    """Keep the first of equal items."""
    kept = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept
''',
    "window_sums": '''
def window_sums(nums, width):
    """Return the sums of all windows."""
    return [sum(nums[i:i + width]) for i in range(len(nums) - width + 1)]
''',
    "best_run": '''
def best_run(nums):
    """Return the largest sum of neighbours."""
    best = current = nums[0]
    for number in nums[1:]:
        current = max(number, current + number)
        best = max(best, current)
    return best
''',
    "spiral": '''
def spiral(matrix):
    """Walk around the matrix, inwards."""
    rows = [list(row) for row in matrix]
    walk = []
    while rows:
        walk.extend(rows.pop(0))
        rows = [list(row) for row in zip(*rows)][::-1]
    return walk
''',
    "camel_to_snake": '''
def camel_to_snake(name):
    """Put an underscore before each capital but the first."""
    parts = []
    for index, char in enumerate(name):
        if char.isupper() and index:
            parts.append("_")
        parts.append(char.lower())
    return "".join(parts)
''',
    "count_vowels": '''
def count_vowels(s):
    """Count the vowels of s."""
    return sum(char in "aeiou" for char in s.lower())
''',
    "most_frequent": '''
def most_frequent(words, count):
    """Return the most frequent words, ties in alphabetical order."""
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts, key=lambda word: (-counts[word], word))[:count]
''',
    "longest_word": '''
def longest_word(text):
    """Return the first of the longest words."""
    return max(text.split(), key=len, default="")
''',
    "digit_sum": '''
def digit_sum(n):
    """Add up the digits of n."""
    return sum(int(digit) for digit in str(abs(n)))
''',
    "to_base": '''
def to_base(n, base):
    """Write n in base."""
    digits = "0123456789abcdef"
    written = ""
    while True:
        n, rest = divmod(n, base)
        written = digits[rest] + written
        if not n:
            return written
''',
    "prime_factors": '''
def prime_factors(n):
    """Return the prime factors of n."""
    factors, divisor = [], 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors
''',
    "collatz_steps": '''
def collatz_steps(n):
    """Count the steps down to 1."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps
''',
    "is_leap_year": '''
def is_leap_year(year):
    """Tell whether year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
''',
}
