"""What a generation request asks for, read from the bodies of the three generating routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ddtune.sim.engine.vocabulary import dice, tokens

CHAT_CAP = 4096


class RequestError(ValueError):
    """The body is not what the route takes; the text is the message of the 400."""


class RefusedError(ValueError):
    """The body is well formed and the engine cannot serve it; the text is the message of the 400."""


@dataclass(frozen=True)
class Ask:
    """One generation to make."""

    prompt: str
    limit: int
    stream: bool = False
    endless: bool = False
    stops: tuple[str, ...] = ()
    sampled: bool = False
    seed: int | None = None
    rid: str | None = None
    logprob: bool = False
    top_logprobs: int = 0
    thinking: bool = False
    chat: bool = False
    prompt_extra: int = 0

    @property
    def prompt_tokens(self) -> int:
        """The prompt's length, with what a chat template adds."""
        return max(1, len(tokens(self.prompt))) + self.prompt_extra

    @property
    def cache_key(self) -> int:
        """Names the prompt in the prefix cache."""
        return dice(self.prompt)


def from_generate(body: Any) -> list[Ask]:
    """The asks of ``/generate``; a list of texts makes one ask each."""
    if not isinstance(body, dict):
        raise RequestError("Input should be a valid dictionary")
    text, ids = body.get("text"), body.get("input_ids")
    if text is None and ids is None:
        raise RequestError("Either text, input_ids or input_embeds should be provided.")
    prompts = (
        text if text is not None else [_of_ids(one) for one in (ids if ids and isinstance(ids[0], list) else [ids])]
    )
    prompts = prompts if isinstance(prompts, list) else [prompts]
    if not all(isinstance(prompt, str) for prompt in prompts):
        raise RequestError(
            "2 validation errors:\n"
            f"  {{'type': 'string_type', 'loc': ('body', 'text', 'str'), 'msg': 'Input should be a valid string', "
            f"'input': {prompts[0]!r}}}\n"
            f"  {{'type': 'list_type', 'loc': ('body', 'text', 'list[str]'), 'msg': 'Input should be a valid list', "
            f"'input': {prompts[0]!r}}}\n"
        )
    sampling = body.get("sampling_params") or {}
    if not isinstance(sampling, dict):
        raise RequestError("sampling_params should be a valid dictionary")
    logprob = body.get("return_logprob")
    return [
        Ask(
            prompt=prompt,
            limit=_limit(sampling.get("max_new_tokens", 128), "max_new_tokens"),
            stream=bool(body.get("stream")),
            endless=bool(sampling.get("ignore_eos")),
            stops=_stops(sampling.get("stop")),
            sampled=float(sampling.get("temperature", 1.0)) > 0,
            seed=sampling.get("sampling_seed"),
            rid=body.get("rid") if isinstance(body.get("rid"), str) else None,
            logprob=any(logprob) if isinstance(logprob, list) else bool(logprob),
            top_logprobs=int(body.get("top_logprobs_num") or 0),
        )
        for prompt in prompts
    ]


def from_completion(body: Any) -> Ask:
    """The ask of ``/v1/completions``."""
    if not isinstance(body, dict):
        raise RequestError("Input should be a valid dictionary")
    prompt = body.get("prompt", "")
    prompt = prompt[0] if isinstance(prompt, list) and prompt and isinstance(prompt[0], str) else prompt
    prompt = _of_ids(prompt) if isinstance(prompt, list) else prompt
    if not isinstance(prompt, str):
        raise RequestError("Input should be a valid string: prompt")
    return _openai(body, prompt, _limit(body.get("max_tokens", 16), "max_tokens"), thinking=False)


def from_chat(body: Any, *, reasoning: bool) -> Ask:
    """The ask of ``/v1/chat/completions``; ``reasoning`` says that the model's thoughts are parsed out."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
        raise RequestError("Input should be a valid list: messages")
    prompt = "\n".join(_content(message) for message in body["messages"] if isinstance(message, dict))
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or CHAT_CAP
    extra = body.get("chat_template_kwargs") or {}
    off = extra.get("thinking") is False or extra.get("enable_thinking") is False
    return _openai(body, prompt, _limit(limit, "max_tokens"), thinking=reasoning and not off, chat=True)


def _openai(body: dict[str, Any], prompt: str, limit: int, *, thinking: bool, chat: bool = False) -> Ask:
    return Ask(
        prompt=prompt,
        limit=limit,
        stream=bool(body.get("stream")),
        endless=bool(body.get("ignore_eos")),
        stops=_stops(body.get("stop")),
        sampled=float(body["temperature"] if body.get("temperature") is not None else 1.0) > 0,
        seed=body.get("seed"),
        rid=body.get("rid") if isinstance(body.get("rid"), str) else None,
        logprob=bool(body.get("logprobs")),
        thinking=thinking,
        chat=chat,
        prompt_extra=9 + 4 * len(body["messages"]) if chat else 0,
    )


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _limit(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RequestError(f"{name} must be at least 0, got {value}.")
    return value


def _stops(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(stop for stop in value or () if isinstance(stop, str) and stop)


def _of_ids(ids: Any) -> str:
    return " ".join(map(str, ids)) if isinstance(ids, list) else str(ids)
