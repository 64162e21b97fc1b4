"""What people and models get wrong: bodies of functions that look right and are not."""

from __future__ import annotations

WRONG: dict[str, tuple[str, ...]] = {
    "flatten": ("return [x for part in nested for x in (part if isinstance(part, list) else [part])]", "return nested"),
    "two_sum": (
        "return next(([i, nums.index(target - a)] for i, a in enumerate(nums) if target - a in nums), [])",
        "return sorted([nums.index(a) for a in nums if target - a in nums][:2])",
    ),
    "binary_search": (
        """
    low, high = 0, len(items) - 1
    while low < high:
        mid = (low + high) // 2
        if items[mid] < target:
            low = mid + 1
        elif items[mid] > target:
            high = mid - 1
        else:
            return mid
    return -1""",
        "return target in items",
    ),
    "transpose": (
        "return [list(r)[::-1] for r in zip(*matrix)]",
        "return [[r[i] for r in matrix] for i in range(len(matrix))]",
    ),
    "chunk": (
        "return [items[i:i + size] for i in range(0, len(items) - size + 1, size)]",
        "return [items[:size], items[size:]]",
    ),
    "rotate_right": ("return items[-places:] + items[:-places]", "return items[places:] + items[:places]"),
    "second_largest": (
        "return sorted(nums)[-2] if len(nums) > 1 else None",
        "return sorted(set(nums))[1] if len(set(nums)) > 1 else None",
    ),
    "remove_repeats": (
        "return sorted(set(items))",
        "return [x for i, x in enumerate(items) if i == 0 or x != items[i - 1]]",
    ),
    "window_sums": (
        "return [sum(nums[i:i + width]) for i in range(len(nums) - width)]",
        "return [sum(nums[i:i + width]) for i in range(len(nums))]",
    ),
    "best_run": (
        """
    best = run = 0
    for x in nums:
        run = max(0, run + x)
        best = max(best, run)
    return best""",
        "return sum(x for x in nums if x > 0)",
    ),
    "spiral": (
        "return [x for i, row in enumerate(matrix) for x in (row if i % 2 == 0 else row[::-1])]",
        """
    out = []
    while matrix:
        out += matrix.pop(0)
        for row in matrix:
            out.append(row.pop())
        if matrix:
            out += matrix.pop()[::-1]
    return out""",
    ),
    "is_palindrome": ("return s == s[::-1]", "t = s.replace(' ', '').lower()\n    return t == t[::-1]"),
    "word_count": (
        "return {w: text.lower().split().count(w) for w in text.lower().split()}",
        "from collections import Counter\n    return dict(Counter(text.split()))",
    ),
    "is_anagram": ("return set(a) == set(b)", "return sorted(a.lower()) == sorted(b.lower())"),
    "reverse_words": ("return s[::-1]", "return ' '.join(s.split(' ')[::-1])"),
    "caesar_cipher": (
        "return ''.join(chr(ord(c) + shift) if c.isalpha() else c for c in text)",
        "return ''.join(chr((ord(c) - 97 + shift) % 26 + 97) if c.isalpha() else c for c in text.lower())",
    ),
    "camel_to_snake": ("return ''.join('_' + c.lower() if c.isupper() else c for c in name)", "return name.lower()"),
    "count_vowels": ("return sum(c in 'aeiou' for c in s)", "return len(set(s.lower()) & set('aeiou'))"),
    "most_frequent": (
        "from collections import Counter\n    return [w for w, _ in Counter(words).most_common(count)]",
        "return sorted(set(words), key=words.count)[:count]",
    ),
    "longest_word": (
        "return sorted(text.split(), key=len)[-1] if text.split() else ''",
        "return max(text.split(' '), key=len)[:4]",
    ),
    "primes_up_to": (
        "return [x for x in range(2, n) if all(x % d for d in range(2, x))]",
        "return [x for x in range(1, n + 1) if all(x % d for d in range(2, x))]",
    ),
    "fizzbuzz": (
        "return ['Fizz' if i % 3 == 0 else 'Buzz' if i % 5 == 0 else str(i) for i in range(1, n + 1)]",
        "return ['Fizz' * (i % 3 == 0) + 'Buzz' * (i % 5 == 0) or str(i) for i in range(1, n)]",
    ),
    "gcd": (
        "while b:\n        a, b = b, a % b\n    return a if a > 0 else 1",
        "return min(a, b) if max(a, b) % max(1, min(a, b)) == 0 else 1",
    ),
    "fibonacci": (
        "a, b = 1, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a",
        "return round(1.618 ** n / 5 ** 0.5)",
    ),
    "is_prime": (
        "return all(n % d for d in range(2, n))",
        "return n > 1 and all(n % d for d in range(2, int(n ** 0.5)))",
    ),
    "digit_sum": (
        "return sum(map(int, str(n).strip('-'))) % 9",
        "return n if n < 10 else n % 10 + digit_sum(n // 10)",
    ),
    "to_base": (
        "out = ''\n    while n:\n        out = '0123456789abcdef'[n % base] + out\n        n //= base\n    return out",
        "return format(n, {2: 'b', 16: 'X'}.get(base, 'd'))",
    ),
    "prime_factors": (
        "return [d for d in range(2, n + 1) if n % d == 0 and all(d % e for e in range(2, d))]",
        "return [d for d in range(2, n) if n % d == 0]",
    ),
    "collatz_steps": (
        "s = 1\n    while n != 1:\n        n = n // 2 if n % 2 == 0 else 3 * n + 1\n        s += 1\n    return s",
        "s = 0\n    while n > 2:\n        n = n // 2 if n % 2 == 0 else 3 * n + 1\n        s += 1\n    return s",
    ),
    "is_leap_year": ("return year % 4 == 0", "return year % 4 == 0 and year % 100 != 0"),
}
