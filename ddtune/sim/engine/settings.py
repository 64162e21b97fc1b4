"""What the simulated engine is told beside SGLang's own command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The ``DDTUNE_SIM_*`` environment, and the few variables of SGLang's and NCCL's own that change behaviour.

    ``speed`` is own seconds for each real second; ``traffic`` the mean number of requests that the engine gives
    itself; ``build`` is ``ddtree`` (with the DDTree flags) or ``plain`` (without).
    """

    speed: float = 10.0
    scenario: str = ""
    seed: int = 0
    traffic: float = 0.0
    gpu: str = "b300"
    state: Path | None = None
    warm: bool = False
    build: str = "ddtree"
    max_topk: int = 4
    nvls_env: str | None = None
    pyspy_dump: bool = True
    coredump: bool = True
    health_generates: bool = True

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Settings:
        """Reads ``env``. Raises ValueError when a number is not one."""
        state = env.get("DDTUNE_SIM_STATE", "")
        return cls(
            speed=max(0.01, float(env.get("DDTUNE_SIM_SPEED") or 10)),
            scenario=env.get("DDTUNE_SIM_SCENARIO", ""),
            seed=int(env.get("DDTUNE_SIM_SEED") or 0),
            traffic=max(0.0, float(env.get("DDTUNE_SIM_TRAFFIC") or 0)),
            gpu=(env.get("DDTUNE_SIM_GPU") or "b300").lower(),
            state=Path(state) if state else None,
            warm=_on(env.get("DDTUNE_SIM_WARM", "")),
            build=env.get("DDTUNE_SIM_BUILD") or "ddtree",
            max_topk=int(env.get("SGLANG_DDTREE_MAX_TOPK") or 4),
            nvls_env=env.get("NCCL_NVLS_ENABLE"),
            pyspy_dump=_on(env.get("SGLANG_PYSPY_DUMP_BEFORE_CRASH", "1")),
            coredump=_on(env.get("SGLANG_CUDA_COREDUMP_BEFORE_CRASH", "1")),
            health_generates=_on(env.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "1")),
        )


def _on(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "y", "on")
