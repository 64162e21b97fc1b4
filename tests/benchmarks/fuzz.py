"""The fuzz targets for as long as asked: ``python -m tests.benchmarks.fuzz --minutes 10``.

Each target runs in turn with fresh random inputs; the first input that breaks one is printed small, and ends the run.
"""

from __future__ import annotations

import argparse
import random
import time

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.unit.fuzz_targets import TARGETS, Target

ROUND = 400


def one_round(target: Target, number: int) -> None:
    """``ROUND`` inputs drawn from the seed ``number``."""

    @seed(number)
    @settings(
        max_examples=ROUND,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(target.inputs)
    def run(drawn: object) -> None:
        target.check(drawn)

    run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    asked = parser.parse_args()
    end, rounds, number = time.monotonic() + 60 * asked.minutes, dict.fromkeys(TARGETS, 0), asked.seed
    print(f"seed {asked.seed}", flush=True)
    while time.monotonic() < end:
        for name, target in TARGETS.items():
            number += 1
            one_round(target, number)
            rounds[name] += 1
    print({name: f"{ROUND * count:,} inputs" for name, count in rounds.items()})


if __name__ == "__main__":
    main()
