"""One generation on the host's loopback whose text is known: the proof that the service serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import api
from .inspect_process import read_process

DEFAULT: Mapping[str, Any] = {
    "path": "/generate",
    "body": {"text": "The capital of France is", "sampling_params": {"temperature": 0, "max_new_tokens": 8}},
    "expect": None,
}
LIMIT_S = 30.0


class NotYetError(Exception):
    """No generation came back."""


class WrongError(Exception):
    """A generation came back with another text."""


def text_of(answer: Any) -> str:
    """The text in an answer of /generate, /v1/completions or /v1/chat/completions; empty when there is none."""
    if not isinstance(answer, dict):
        return ""
    if isinstance(answer.get("text"), str):
        return str(answer["text"])
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return ""
    if isinstance(choice.get("text"), str):
        return str(choice["text"])
    message = choice.get("message")
    parts = (message.get(name) for name in ("reasoning_content", "content")) if isinstance(message, dict) else ()
    return "".join(part for part in parts if isinstance(part, str))


def try_once(port: int, key_file: str | None, main_pid: int, canary: Mapping[str, Any] | None) -> str:
    """The text, when the engine generated what ``canary`` expects. Raises NotYetError or WrongError."""
    wanted = canary or DEFAULT
    try:
        process = read_process(main_pid)
        key = api.read_key(key_file, process.argv if process else ())
        reply = api.Api(port, key).post(wanted["path"], wanted["body"], LIMIT_S)
        if reply.status != 200:
            raise NotYetError(f"{wanted['path']} answered {reply.status}")
        text = text_of(reply.json())
    except api.ApiError as error:
        raise NotYetError(str(error)) from error
    expect = wanted.get("expect")
    if not text.strip() or (expect and expect not in text):
        raise WrongError(f"a known prompt was answered with {text[:200]!r}")
    return text


def abort_all(port: int, key_file: str | None, main_pid: int) -> None:
    """Cut what is being generated, so that an orderly stop need not wait for it. Best effort, at most 2 s."""
    try:
        process = read_process(main_pid)
        key = api.read_admin_key(key_file, process.argv if process else ())
        api.Api(port, key, connect_s=1.0).post("/abort_request", {"abort_all": True}, 2.0)
    except api.ApiError:
        return
