"""Requests as users send them, and what they measure."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from tests.gpu.served import Served

TOKENS = 128
SINGLES = 12
CROWD = 16
CROWD_S = 8.0
THINGS = ("a list", "a queue", "a tree", "a matrix", "a graph", "a string", "a date", "a file", "a price", "a word",
          "a number", "a name", "a city", "a river", "a song", "a recipe")  # fmt: skip
ASKED = (
    "Write a Python function that sorts {}. Explain each step.\n",
    "Tell a short story about {} and a fox.\n",
    "List ten facts about {}, one on each line.\n",
    "Repeat the words one, two, three and {} twenty times.\n",
)
PROMPTS = tuple(text.format(thing) for thing in THINGS for text in ASKED)
_PASSES = re.compile(r'sglang:cuda_graph_passes_total\{.*?mode="(\w+)".*?\} ([\d.e+]+)')


def generate(host: Served, prompt: str, tokens: int = TOKENS, timeout: float = 120.0) -> dict[str, Any]:
    """One greedy answer of exactly ``tokens`` tokens."""
    sampling = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}
    body = json.dumps({"text": prompt, "sampling_params": sampling}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{host.port}/generate", body, headers)
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return dict(json.load(reply))


def measure(host: Served) -> dict[str, Any]:
    """Speed and accept length alone and at 16 at once, with ddtune's reading under that load.

    The same prompts in the same order each time: n-gram speculation learns from what it has answered.
    """
    for prompt in PROMPTS[-4:]:
        generate(host, prompt)
    before = passes(host)
    single, ids = singles(host)
    crowd = crowded(host)
    after = passes(host)
    moved = {mode: count - before.get(mode, 0) for mode, count in after.items()}
    return {"c1": single, "c16": crowd, "ids": ids, "graph_passes": moved, "argv": host.argv()}


def singles(host: Served) -> tuple[dict[str, Any], list[list[int]]]:
    """One request at a time; speeds by prompt, and the token ids of each answer."""
    speeds: dict[str, float] = {}
    ids, metas, took = [], [], 0.0
    for prompt in PROMPTS[:SINGLES]:
        began = time.monotonic()
        answer = generate(host, prompt)
        seconds = time.monotonic() - began
        took += seconds
        speeds[prompt] = round(answer["meta_info"]["completion_tokens"] / seconds, 1)
        ids.append(answer.get("output_ids") or [])
        metas.append(answer["meta_info"])
    tokens = sum(meta["completion_tokens"] for meta in metas)
    return {"tokens_per_s": round(tokens / took, 1), "accept_length": accept(metas), "by_prompt": speeds}, ids


def crowded(host: Served) -> dict[str, Any]:
    """Sixteen at once for some seconds; in their middle ddtune reads the host."""
    metas: list[dict[str, Any]] = []
    status: list[Any] = []
    began = time.monotonic()
    with flow(host, CROWD, metas):
        time.sleep(1.5)
        status.append(host.run("status", host.name, timeout=60))
        time.sleep(max(0.0, CROWD_S - (time.monotonic() - began)))
        done, took = list(metas), time.monotonic() - began
    tokens = sum(meta["completion_tokens"] for meta in done)
    return {
        "tokens_per_s": round(tokens / took, 1),
        "accept_length": accept(done),
        "answers": len(done),
        "status": status[0].json,
        "status_s": status[0].seconds,
    }


@contextlib.contextmanager
def flow(host: Served, count: int, metas: list[dict[str, Any]], tokens: int = TOKENS) -> Iterator[list[str]]:
    """``count`` requests at once, over and over; ``metas`` get each answer's, the list that is given each failure."""
    stop = threading.Event()
    order, lock = itertools.cycle(PROMPTS), threading.Lock()
    failures: list[str] = []

    def one() -> None:
        while not stop.is_set():
            with lock:
                prompt = next(order)
            try:
                metas.append(generate(host, prompt, tokens)["meta_info"])
            except (OSError, ValueError, KeyError) as error:
                failures.append(f"{type(error).__name__}: {error}"[:200])
                stop.wait(0.5)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        users = [pool.submit(one) for _ in range(count)]
        try:
            yield failures
        finally:
            stop.set()
            concurrent.futures.wait(users)


def accept(metas: list[dict[str, Any]]) -> float | None:
    """Tokens for each verify pass; None without speculation."""
    passes_ = sum(meta.get("spec_verify_ct") or 0 for meta in metas)
    tokens = sum(meta["completion_tokens"] for meta in metas if meta.get("spec_verify_ct"))
    return round(tokens / passes_, 2) if passes_ else None


def passes(host: Served) -> dict[str, float]:
    """Forward passes by graph mode since the start; a mode never used is not there."""
    return {mode: float(count) for mode, count in _PASSES.findall(host.text("/metrics"))}
