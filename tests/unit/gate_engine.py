"""An engine in this process for the gate's tests: right by default, with faults put over its answers."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ddtune.gate.model import Answer, Request
from ddtune.gate.texts import SURE
from ddtune.sim.engine.solutions import SOLUTIONS as SIMULATED

PROSE = (
    "The keeper walked along the wall before the tide came in and wrote down what he had seen of the boats.",
    "It was not the first time that the lamp had gone out, but nobody in the village could say who had noticed.",
    "A spring stores the work of the hand that wound it and gives it back in small and even steps.",
    "When the road bends towards the mill there is a gate, and behind it the path climbs through the wood.",
    "Each of the pumps can be stopped by hand, which is why the valve stands where everyone can reach it.",
    "They agreed to meet again in spring, after the seeds had been ordered and the fence repaired.",
    "Water that falls on the roof runs into a barrel, and from there it is carried to the beans.",
    "The difference is small at first, yet over a year it adds up to more than a day of work.",
)

SOLUTIONS = {
    **SIMULATED,
    "is_balanced": """
def is_balanced(s):
    stack = []
    for c in s:
        if c in "([{":
            stack.append(c)
        elif c in ")]}":
            if not stack or "([{".index(stack.pop()) != ")]}".index(c):
                return False
    return not stack
""",
    "merge_intervals": """
def merge_intervals(intervals):
    out = []
    for a, b in sorted(intervals):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out
""",
    "roman_to_int": """
def roman_to_int(s):
    v = dict(zip("IVXLCDM", (1, 5, 10, 50, 100, 500, 1000)))
    t = 0
    for i, c in enumerate(s):
        t += -v[c] if i + 1 < len(s) and v[c] < v[s[i + 1]] else v[c]
    return t
""",
    "longest_common_prefix": """
def longest_common_prefix(words):
    if not words:
        return ""
    n = 0
    while all(len(w) > n and w[n] == words[0][n] for w in words):
        n += 1
    return words[0][:n]
""",
    "run_length_encode": """
from itertools import groupby
def run_length_encode(s):
    return [(c, len(list(g))) for c, g in groupby(s)]
""",
}
Fault = Callable[[Request, Answer], Answer]


def prompt_of(request: Request) -> str:
    """The prompt of a chat or raw request."""
    if "messages" in request.body:
        return str(request.body["messages"][0]["content"])
    return str(request.body["text"])


def limit_of(request: Request) -> int:
    """The most tokens that a request asks for."""
    return int(request.body.get("max_tokens") or request.body["sampling_params"]["max_new_tokens"])


def healthy(request: Request, accept: float = 4.5) -> Answer:
    """What a sound engine answers: copies, solutions, else prose that depends on the prompt alone."""
    prompt = prompt_of(request)
    copied = re.search(r"<text>\n(.*)\n</text>", prompt, re.DOTALL)
    # A copy that is begun is gone on with.
    copied = copied or re.search(r"^Text: ([^\n]*)\n(?:Text: \1\n)+Text: (?=([^\n]*)$)", prompt)
    solved = next((code for name, code in SOLUTIONS.items() if f"def {name}(" in prompt), None)
    if copied:
        text = copied.group(1)
        text = text if copied.lastindex == 1 else text.removeprefix(copied.group(2))
    elif solved:
        text = f"```python{solved}```"
    elif sure := next((answer for asked, answer in SURE if asked in prompt), None):
        text = sure
    else:
        rng = random.Random(prompt)
        text = " ".join(rng.sample(PROSE, len(PROSE)) + rng.sample(PROSE, len(PROSE)))
    words = text.split(" ")[: limit_of(request)]
    count = len(words)
    ids = tuple(int(hashlib.sha256(word.encode()).hexdigest()[:6], 16) for word in words)
    return Answer(
        request.id,
        text=" ".join(words),
        token_ids=ids if request.path == "/generate" else (),
        completion_tokens=count,
        finish_reason="stop",
        verify_calls=max(1, round(count / accept)) if request.path == "/generate" else None,
        status=200,
    )


class Engine:
    """``send`` of an engine whose answers pass through ``faults``; ``loads`` are what it was asked."""

    def __init__(self, *faults: Fault, accept: float = 4.5) -> None:
        self.faults = faults
        self.accept = accept
        self.flushed = 200
        self.loads: list[tuple[int, list[Request]]] = []

    async def send(self, requests: Sequence[Request], concurrency: int, deadline_s: float) -> list[Answer]:
        """Answers at once."""
        self.loads.append((concurrency, list(requests)))
        out = []
        for request in requests:
            if request.path == "/flush_cache":
                out.append(Answer(request.id, status=self.flushed, error="no JSON object", error_kind="body"))
                continue
            answer = healthy(request, self.accept)
            for fault in self.faults:
                answer = fault(request, answer)
            out.append(answer)
        return out


def near_tie(start: int, variant: str, share: float = 1.0) -> Fault:
    """Another healthy text from word ``start`` on, for a ``share`` of the raw completions."""

    def fault(request: Request, answer: Answer) -> Answer:
        if request.path != "/generate" or random.Random(f"{request.id}{variant}").random() >= share:
            return answer
        other = healthy(replace(request, body={**request.body, "text": prompt_of(request) + variant}))
        words = answer.text.split(" ")[:start] + other.text.split(" ")[start:]
        return replace(answer, text=" ".join(words), token_ids=answer.token_ids[:start] + other.token_ids[start:])

    return fault


def only(family: str, fault: Fault) -> Fault:
    """The fault for requests whose id has ``family`` in it."""
    return lambda request, answer: fault(request, answer) if family in request.id else answer


def fails(kind: str) -> Fault:
    """No answer, for a reason of this kind."""
    return lambda request, answer: Answer(request.id, error=f"no answer ({kind})", error_kind=kind)


def says(text: str) -> Fault:
    """The same text for everything."""
    return lambda request, answer: replace(answer, text=text, token_ids=tuple(range(len(text.split()))))
