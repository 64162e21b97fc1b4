"""The knobs that decide how the engine behaves, read from its resolved command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Axes:
    """``algorithm`` is SGLang's name or None; ``budget`` counts tree nodes (or chain tokens less the bonus).

    ``graph_max_bs`` is the largest batch that a captured decode graph covers, 0 with graphs off.
    """

    algorithm: str | None = None
    budget: int = 0
    topk: int = 4
    draft_window: int | None = None
    graphs: bool = True
    prefill_graphs: bool = True
    graph_max_bs: int = 48
    nvls: bool = False
    max_running: int = 48
    tp_size: int = 8

    @property
    def draft_tokens(self) -> int:
        """Rows that the target verifies for each request in one pass; 1 without speculation."""
        return self.budget + 1 if self.algorithm else 1

    def in_graph(self, running: int) -> bool:
        """Whether a decode pass of ``running`` requests replays a captured graph."""
        return self.graphs and 0 < running <= self.graph_max_bs
