"""What an embedded host is started with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

_PASSED_ON = ("DDTUNE_SIM_SCENARIO", "DDTUNE_SIM_SEED", "DDTUNE_SIM_GPU")


@dataclass(frozen=True)
class Settings:
    """``speed`` is how many of the engine's seconds pass in one of ours; ``traffic`` its mean running requests;
    ``engine_env`` what else the engine is told by environment."""

    speed: float = 10.0
    traffic: float = 24.0
    engine_env: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """From ``DDTUNE_SIM_*``. Raises ValueError in one sentence."""
        values = {}
        for field, name, default in (("speed", "DDTUNE_SIM_SPEED", 10.0), ("traffic", "DDTUNE_SIM_TRAFFIC", 24.0)):
            try:
                values[field] = float(env.get(name) or default)
            except ValueError:
                raise ValueError(f"{name} is {env[name]!r}, which is not a number.") from None
        if values["speed"] <= 0:
            raise ValueError("DDTUNE_SIM_SPEED must be above 0.")
        return cls(**values, engine_env=tuple((name, env[name]) for name in _PASSED_ON if env.get(name)))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(found["speed"], found["traffic"], tuple((name, value) for name, value in found["engine_env"]))
