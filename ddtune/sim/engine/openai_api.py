"""``/v1/completions`` and ``/v1/chat/completions``."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from ddtune.sim.engine import params
from ddtune.sim.engine.checks import check
from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.generate import Generation, chunks, sse
from ddtune.sim.engine.meta import finish_reason
from ddtune.sim.engine.params import Ask
from ddtune.sim.engine.vocabulary import dice
from ddtune.sim.engine.web import Request, Response

EVENT_STREAM = "text/event-stream; charset=utf-8"


class OpenAi:
    """The two OpenAI routes of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def completions(self, request: Request) -> Response:
        """``POST /v1/completions``."""
        body = request.json()
        return await self._answer(params.from_completion(body), body, chat=False)

    async def chat(self, request: Request) -> Response:
        """``POST /v1/chat/completions``."""
        body = request.json()
        reasoning = self.engine.launch.args["reasoning_parser"] is not None
        return await self._answer(params.from_chat(body, reasoning=reasoning), body, chat=True)

    async def _answer(self, ask: Ask, body: dict[str, Any], *, chat: bool) -> Response:
        check(self.engine, ask)
        made = Generation(self.engine, ask)
        model = str(body.get("model") or self.engine.launch.model_name)
        if ask.stream:
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return Response(200, content_type=EVENT_STREAM, chunks=self._stream(made, model, chat=chat, usage=usage))
        await made.wait()
        return Response.of_json(self._whole(made, model, chat=chat))

    def _whole(self, made: Generation, model: str, *, chat: bool) -> dict[str, Any]:
        job = made.job
        text = made.text(job.produced)
        thoughts = _thoughts(made.ask)
        if chat:
            message = {"role": "assistant", "content": text, "reasoning_content": thoughts}
            choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": None, **_finish(made)}
        else:
            choice = {"index": 0, "text": text, "logprobs": None, **_finish(made)}
        return {
            "id": job.rid,
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
            "usage": _usage(made, thoughts),
            "metadata": {
                "weight_version": "default",
                "weight_versions": [{"version": "default", "start": 0, "end": job.produced}],
            },
        }

    async def _stream(self, made: Generation, model: str, *, chat: bool, usage: bool) -> AsyncIterator[bytes]:
        head = {
            "id": made.job.rid,
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

        def event(choice: dict[str, Any]) -> bytes:
            base = {"index": 0, "logprobs": None, "finish_reason": None, "matched_stop": None}
            return sse({**head, "choices": [{**base, **choice}]})

        thoughts = _thoughts(made.ask)
        if chat:
            yield event({"delta": {"reasoning_content": None, "role": "assistant", "content": ""}})
            if thoughts:
                yield event({"delta": {"reasoning_content": thoughts}})
        shown = 0
        async for produced in chunks(made):
            text = made.text(produced, shown)
            shown = produced
            if text:
                yield event({"delta": {"reasoning_content": None, "content": text}} if chat else {"text": text})
        empty: dict[str, Any] = {"delta": {"reasoning_content": None}} if chat else {"text": ""}
        yield event({**empty, **_finish(made)})
        if usage:
            yield sse({**head, "choices": [], "usage": _usage(made, thoughts)})
        yield b"data: [DONE]\n\n"


def _finish(made: Generation) -> dict[str, Any]:
    reason = finish_reason(made.job)
    return {"finish_reason": reason["type"], "matched_stop": reason.get("matched")}


def _usage(made: Generation, thoughts: str | None) -> dict[str, Any]:
    prompt, completion = made.job.prompt_tokens, made.job.produced
    report = made.engine.launch.args["enable_cache_report"]
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": made.job.cached} if report else None,
        "reasoning_tokens": len(thoughts.split()) if thoughts else 0,
        "completion_tokens_details": None,
    }


def _thoughts(ask: Ask) -> str | None:
    """What the model thinks first, where thinking is on and parsed out."""
    if not ask.thinking:
        return None
    ways = ("work through it step by step", "recall what is known", "check the simplest case first")
    return f"The user asks something; I should {ways[dice('thought', ask.prompt) % len(ways)]} and answer plainly."
