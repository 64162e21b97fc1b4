"""One request with what the judge must know of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ddtune.gate.model import Request


@dataclass(frozen=True)
class Probe:
    """A request, the family that it belongs to and what a healthy answer looks like.

    ``family`` is ``copy``, ``continue``, ``question``, ``sure``, ``sampled`` or ``code``; ``kind`` is the kind of text
    (``prose``, ``code``, ``list``, ``data``, ``chinese``, ``german``); ``expect`` is the text to be copied, the word or
    number that must stand in the answer, or the name of a coding problem.
    """

    request: Request
    family: str
    kind: str
    prompt: str
    expect: str = ""

    @property
    def id(self) -> str:
        """The id of the request."""
        return self.request.id


def chat(request_id: str, prompt: str, max_tokens: int, timeout_s: float = 60.0) -> Request:
    """A greedy chat request with thinking off where the template allows that."""
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": False,
        "chat_template_kwargs": {"thinking": False, "enable_thinking": False},
    }
    return Request(request_id, "/v1/chat/completions", body, timeout_s)


def streamed(request: Request) -> Request:
    """The same chat request, answered as a stream of events, which is how most users ask."""
    body = {**request.body, "stream": True, "stream_options": {"include_usage": True}}
    return replace(request, body=body)


def generate(
    request_id: str, prompt: str, max_tokens: int, stop: tuple[str, ...] = (), timeout_s: float = 60.0
) -> Request:
    """A greedy raw completion, which answers with token ids and the number of verify calls."""
    sampling: dict[str, Any] = {"temperature": 0, "max_new_tokens": max_tokens}
    if stop:
        sampling["stop"] = list(stop)
    return Request(request_id, "/generate", {"text": prompt, "sampling_params": sampling, "stream": False}, timeout_s)
