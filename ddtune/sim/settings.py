"""What an embedded host is started with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from ddtune.sim.real import RealEngine

_PASSED_ON = ("DDTUNE_SIM_SCENARIO", "DDTUNE_SIM_SEED", "DDTUNE_SIM_GPU")


@dataclass(frozen=True)
class Settings:
    """``speed`` is how many of the engine's seconds pass in one of ours; ``traffic`` its mean running requests;
    ``engine_env`` what else the engine is told by environment. ``real`` is a real engine in the place of the simulated
    one, and ``real_gpus`` says that GPUs and kernel log are this machine's own."""

    speed: float = 10.0
    traffic: float = 24.0
    engine_env: tuple[tuple[str, str], ...] = ()
    real: RealEngine | None = None
    real_gpus: bool = False

    @property
    def simulated(self) -> bool:
        """Whether anything that is measured here is made up."""
        return self.real is None or not self.real_gpus

    @property
    def clock_scale(self) -> float:
        """How many of the engine's seconds pass in one of ours."""
        return self.speed if self.real is None else 1.0

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """From ``DDTUNE_SIM_*``. Raises ValueError in one sentence."""
        speed, traffic = (
            _number(env, name, default) for name, default in (("DDTUNE_SIM_SPEED", 10.0), ("DDTUNE_SIM_TRAFFIC", 24.0))
        )
        if speed <= 0:
            raise ValueError("DDTUNE_SIM_SPEED must be above 0.")
        return cls(speed, traffic, tuple((name, env[name]) for name in _PASSED_ON if env.get(name)))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        found: dict[str, Any] = json.loads(text)
        return cls(
            found["speed"],
            found["traffic"],
            _pairs(found["engine_env"]),
            _engine(found["real"]),
            found["real_gpus"],
        )


def _engine(found: dict[str, Any] | None) -> RealEngine | None:
    return None if found is None else RealEngine(tuple(found["argv"]), _pairs(found["environment"]))


def _pairs(found: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in found)


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(env.get(name) or default)
    except ValueError:
        raise ValueError(f"{name} is {env[name]!r}, which is not a number.") from None
