"""What the scheduler refuses of a well-formed request."""

from __future__ import annotations

from ddtune.sim.engine import info
from ddtune.sim.engine.engine import Engine
from ddtune.sim.engine.params import Ask, RefusedError


def check(engine: Engine, ask: Ask) -> None:
    """Raises RefusedError where the scheduler refuses ``ask``."""
    longest = info.context_len(engine)
    if ask.prompt_tokens >= longest:
        raise RefusedError(
            f"The input ({ask.prompt_tokens} tokens) is longer than the model's context length ({longest} tokens)."
        )
    if ask.logprob and engine.launch.axes.algorithm == "DDTREE":
        raise RefusedError("DDTREE speculative decoding does not support return_logprob.")
