"""What the gate catches and what it lets be: writes the tables of docs/gate.md. `make gate-table`.

Whole gates against the embedded engine, in this process and on a virtual clock: seconds are the engine's own. Seeds are
drawn at run time and printed; ``--seeds`` repeats a run. ``--only`` renews one of the two tables.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddtune.gate import golden
from ddtune.gate.isolation import probe
from ddtune.gate.reference import Reference
from tests.unit.virtual import VirtualService, in_virtual_time
from tests.unit.virtual_gate import PRODUCTION, judged

ROOT = Path(__file__).parents[2]
PAGE, BUILD = ROOT / "docs" / "gate.md", ROOT / "build"
STABLE = "near_ties:0.05"
STRENGTHS = (1.0, 0.5, 0.25, 0.0625)
# The default gate with a short soak: a thousand of them are to end on the day on which they begin.
ALIKE = replace(PRODUCTION, concurrency=(1, 2, 8, 32), soak_s=60, soak_requests=40)
FAULTS = {
    "doubled": "doubled words, healthy acceptance",
    "garbage_low": "garbage while at most 4 requests run",
    "garbage_high": "garbage while at least 16 requests run",
    "garbage_late": "garbage past 2,048 tokens of context",
    "poison": "one long request poisons all that follow",
    "drift": "the answer goes on in another language",
    "empty": "empty answers",
    "hang": "a hang after 120 requests",
}


def scenario(fault: str, strength: float) -> str:
    """The engine's scenario of a fault at a strength, with near-ties that flip as stable's do."""
    part = f"hang:{round(120 / strength)}" if fault == "hang" else f"{fault}:{strength:g}"
    return f"{STABLE},{part}"


def faults(seeds: list[int]) -> dict[str, Any]:
    """Each fault at each strength over all seeds."""
    rows: dict[str, Any] = {}
    for fault in FAULTS:
        for strength in STRENGTHS:
            found = []
            for seed in seeds:
                one = judged(scenario(fault, strength), seed=seed, stable=STABLE, isolation=probe().isolation)
                bad = one.failed
                found.append(
                    {
                        "check": one.caught,
                        "cause": bad.cause if bad else None,
                        "seconds": round(one.seconds, 1),
                        "requests": one.requests,
                        "tokens": one.tokens,
                    }
                )
                print(fault, strength, seed, found[-1], flush=True)
            rows[f"{fault}:{strength:g}"] = found
    return {"seeds": seeds, "rows": rows}


def without_speculation(seed: int) -> Reference:
    """A kept reference of an engine without speculation, whose near-ties flip too."""

    async def go() -> Reference:
        made = await golden.measure(
            VirtualService(STABLE, seed=seed, budget=None).send, PRODUCTION, key={}, nonce=f"{seed:x}-ar", source="ar",
            profile="ar", release=None, made_by="table", flush=True, clock=asyncio.get_running_loop().time,
        )  # fmt: skip
        return made.reference()

    return in_virtual_time(go())


def alike(seed: int, count: int, minutes: float) -> dict[str, Any]:
    """Gates of a healthy engine against itself, as many as fit; every other one is held to a kept reference."""
    verdicts: Counter[str] = Counter()
    reference, end = None, time.monotonic() + 60 * minutes
    for number in range(count):
        if time.monotonic() > end:
            break
        if number % 50 == 0:
            reference = without_speculation(seed + number)
        kept = reference if number % 2 else None
        one = judged(STABLE, seed=seed + 7 * number, stable=STABLE, reference=kept, sizes=ALIKE)
        verdicts[one.caught or "passed"] += 1
        if one.failed is not None or number % 50 == 49:
            print(number + 1, dict(verdicts), one.failed, flush=True)
    return {"seed": seed, "count": verdicts.total(), "verdicts": dict(verdicts)}


def rendered(table: dict[str, Any], same: dict[str, Any]) -> str:
    """Both tables as Markdown."""
    lines = [
        f"Seeds {', '.join(map(str, table['seeds']))}, drawn at run time; {table['date']}.",
        "",
        "| fault | caught by | after s | requests | tokens | full strength | half | a quarter | a sixteenth |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for fault, said in FAULTS.items():
        full, *weaker = (table["rows"][f"{fault}:{strength:g}"] for strength in STRENGTHS)
        checks = ", ".join(dict.fromkeys(f"`{one['check'] or 'nothing'}`" for one in full))
        spans = [_span([one[name] for one in full]) for name in ("seconds", "requests", "tokens")]
        rates = [f"{sum(one['check'] is not None for one in found)} of {len(found)}" for found in (full, *weaker)]
        lines.append(f"| {said} | {checks} | {' | '.join(spans)} | {' | '.join(rates)} |")
    passed = same["verdicts"].get("passed", 0)
    unsure = sum(count for name, count in same["verdicts"].items() if name.endswith("?"))
    failed = same["count"] - passed - unsure
    lines += [
        "",
        f"A/A: {same['count']:,} gates with a soak of 40 requests, of a healthy engine whose near-ties flip, against "
        f"itself (seed {same['seed']}, {same['date']}): {failed} failures, {unsure} inconclusive, {passed:,} passed.",
    ]
    if not failed:
        lines[-1] += f" No failure in so many excludes more than {_excluded(same['count']):.2%} with 95 % confidence."
    return "\n".join(lines)


def _excluded(good: int) -> float:
    """The share of failures that so many good ones and no other exclude with 95 % confidence."""
    return 1.0 - float(0.05 ** (1 / good))


def _span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:,g}" if low == high else f"{low:,g}–{high:,g}"


def main() -> None:
    """Run what was asked for, keep it in build/, and renew the page from what is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["faults", "alike"])
    parser.add_argument("--seeds", type=int, nargs="*")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=120.0, help="for the gates of a sound engine")
    asked = parser.parse_args()
    seeds = asked.seeds or [secrets.randbelow(10**6) for _ in range(3)]
    print(f"seeds {seeds}", flush=True)
    BUILD.mkdir(exist_ok=True)
    day = time.strftime("%Y-%m-%d")
    for name, work in (
        ("faults", lambda: faults(seeds)),
        ("alike", lambda: alike(seeds[0], asked.count, asked.minutes)),
    ):
        if asked.only in (None, name):
            (BUILD / f"gate-{name}.json").write_text(json.dumps({**work(), "date": day}, indent=1))
    kept = [BUILD / f"gate-{name}.json" for name in ("faults", "alike")]
    if not all(path.exists() for path in kept):
        return
    head, mark, rest = PAGE.read_text().partition("<!-- table -->\n")
    _, end, tail = rest.partition("<!-- end of table -->\n")
    text = rendered(*(json.loads(path.read_text()) for path in kept))
    PAGE.write_text(f"{head}{mark}{text}\n{end}{tail}")


if __name__ == "__main__":
    main()
