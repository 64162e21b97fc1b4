"""Restarts of a healthy, near-tie-flipping engine through the whole product: how many gates fail or are inconclusive.

Run it with ``python -m tests.benchmarks.gate_product [--count N] [--speed X]``; it writes a line into docs/gate.md. The
embedded host is started once and its service restarted N times by the console script, each time behind every gate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from tests.benchmarks.gate_table import PAGE, STABLE

BEGIN, END = "<!-- product -->\n", "<!-- end of product -->\n"


def ddtune(*words: str) -> dict[str, Any]:
    """One command's object."""
    done = subprocess.run(
        [sys.executable, "-m", "ddtune.cli.main", *words, "--json"], capture_output=True, text=True, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Restart, count, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--speed", type=float, default=60)
    parser.add_argument("--minutes", type=float, default=60)
    asked = parser.parse_args()
    env = {**os.environ, "DDTUNE_SIM_SPEED": str(asked.speed), "DDTUNE_SIM_SCENARIO": STABLE, "DDTUNE_SIM_TRAFFIC": "0"}
    serving = subprocess.Popen(
        [sys.executable, "-m", "ddtune.cli.main", "demo", "--serve", "--json"],
        env=env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert serving.stdout is not None
    outcomes: Counter[str] = Counter()
    begun = time.monotonic()
    try:
        host = json.loads(serving.stdout.readline())["host"]
        for number in range(asked.count):
            if time.monotonic() - begun > 60 * asked.minutes:
                break
            one = ddtune("restart", host, "--yes")
            bad = [check for check, found in (one.get("gate") or {}).items() if found["verdict"] != "pass"]
            outcomes["passed" if one["outcome"] == "committed" else f"{one['cause']} {bad}"] += 1
            print(number + 1, one["outcome"], one["cause"], bad, f"own {one.get('own_s')} s", flush=True)
    finally:
        serving.terminate()
        serving.wait(30)
    done, passed = outcomes.total(), outcomes.pop("passed", 0)
    each_s = (time.monotonic() - begun) / max(1, done)
    text = (
        f"{done} restarts of the embedded host's service, its near-ties flipping, each behind all gates and its "
        f"soak ({time.strftime('%Y-%m-%d')}, {each_s:.0f} s each): {passed} committed"
        + "".join(f", {count} {what}" for what, count in outcomes.items())
        + ".\n"
    )
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}{text}{END}{tail}")


if __name__ == "__main__":
    main()
