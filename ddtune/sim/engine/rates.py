"""How fast the engine is: accept length by axes, and the time of one decode step by batch.

tok/s = C x accept length / T(C). The constants are fitted to the recorded points: 303 tok/s at C=1 and 4723 at C=128
with budget 8, NVLS and graphs; 285 at C=1 without NVLS; 111 with budget 16 and graphs off; 141 with no speculation.
"""

from __future__ import annotations

import math

from ddtune.sim.engine.axes import Axes

NO_NVLS = 303 / 285
STEP_S, STEP_PER_REQUEST_S = 0.013946, 0.0008394
PLAIN_STEP_S, PLAIN_PER_REQUEST_S = 0.006883, 0.00020922
# Launching every kernel from Python instead of one replay; the tree's build on the CPU comes on top.
EAGER_S, PLAIN_EAGER_S = 0.0366, 0.0221
CHAIN_ACCEPT = 3.62


def accept_length(axes: Axes) -> float:
    """Accepted drafts and the bonus token of one verify step, of a healthy engine; 1.0 without speculation."""
    if not axes.algorithm:
        return 1.0
    if axes.algorithm != "DDTREE":
        return min(CHAIN_ACCEPT, axes.budget + 1.0)
    by_budget = min(8.6, 4.48 + 1.32 * math.log2(axes.budget / 8)) if axes.budget > 2 else 1.2 + 0.6 * axes.budget
    by_topk = {1: 0.86, 2: 0.95, 3: 0.98}.get(axes.topk, 1.0)
    short = 0.94 if axes.draft_window and axes.draft_window < 1024 else 1.0
    return max(1.1, by_budget * by_topk * short)


def step_s(axes: Axes, running: int) -> float:
    """Seconds of one decode step with ``running`` requests in it."""
    eager = not axes.in_graph(running)
    if not axes.algorithm:
        base = PLAIN_STEP_S + PLAIN_PER_REQUEST_S * running + (PLAIN_EAGER_S if eager else 0.0)
    else:
        rows = (axes.budget + 1) / 9
        base = STEP_S + 0.00005 * (axes.budget - 8) + STEP_PER_REQUEST_S * (0.4 + 0.6 * rows) * running
        base += EAGER_S if eager else 0.0
    return base * (1.0 if axes.nvls else NO_NVLS)


def tokens_per_s(axes: Axes, running: int, accept: float | None = None) -> float:
    """Tokens a second of the whole batch; ``accept`` overrides the healthy accept length."""
    length = accept_length(axes) if accept is None else accept
    return running * length / step_s(axes, running) if running else 0.0
