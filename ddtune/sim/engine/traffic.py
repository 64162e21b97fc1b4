"""The users that the engine gives itself: a number of requests that wanders around a mean."""

from __future__ import annotations

import math
import random

from ddtune.sim.engine.job import Job

RETRY_S = 2.0


class Traffic:
    """Keeps about ``mean`` streaming requests in the engine; whose request was cut comes back after 2 own seconds."""

    def __init__(self, mean: float, seed: int) -> None:
        self.mean = mean
        self._rng = random.Random(seed * 7919 + 17)
        self._hold_until = 0.0
        self._count = 0

    def wanted(self, own_s: float) -> int:
        """How many requests there should be now: Poisson-like, changing over some seconds."""
        if self.mean <= 0 or own_s < self._hold_until:
            return 0
        spread = 0.55 * math.sqrt(self.mean)
        drift = math.sin(own_s / 9.1) + 0.7 * math.sin(own_s / 3.7 + 1.3) + 0.5 * math.sin(own_s / 1.9 + 4.0)
        return max(0, round(self.mean + spread * drift))

    def cut(self, own_s: float) -> None:
        """Its requests were ended from outside."""
        self._hold_until = own_s + RETRY_S

    def job(self, accept: float) -> Job:
        """The next request of a user."""
        self._count += 1
        prompt = 120 + int(self._rng.expovariate(1 / 900))
        length = min(1800, 60 + int(self._rng.lognormvariate(5.3, 0.6)))
        cached = int(prompt * self._rng.uniform(0.3, 0.9))
        return Job(f"{self._rng.getrandbits(128):032x}", prompt, length, accept, cached=cached, stream=True)
