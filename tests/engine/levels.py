"""How much noise in the weights the gate still sees, on a real engine; writes docs/engine-gate.md.

usage: python -m tests.engine.levels      (as root, with the engine installed; a quarter of an hour)
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.e2e.guest import wait_until
from tests.e2e.operator import HOST
from tests.engine.profiles import FOUR
from tests.engine.service import Service, served
from tests.engine.steps import Steps
from tests.engine.unit import CHECKOUT, MODEL, PYTHON

LEVELS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0)
GATE = """
[gate]
concurrency = [4]
soak_s = 2
soak_requests = 8
coding = 0
max_tokens = 24
singles = 2
crowd = 8
tokens = 16
copy_words = 24
long_copy_words = 40
mixed = 6
wide = 0
sampled = 2
long_prompt_words = 150
long_tokens = 32
"""
ABOUT = """# The gate on a real engine

Written by `python -m tests.engine.levels` on {date}: SGLang 0.5.23 on a CPU with SmolLM2-135M, as in
[engine-run.md](engine-run.md). References are made with `ddtune golden`; each level is a model of its own and a switch
to it. Noise is in standard deviations of a tensor's own weights, added to the attention outputs of layers 10 to 12 of
30, seed {seed}.

{golden}

| candidate | seconds | verdict |
|---|---|---|
{rows}

The gate sees noise of {seen} and more; {missed}. Not planned: {not_planned}.

Sizes of this gate, which are what it can see with: {sizes}.
"""


def make_models(folder: Path, seed: int) -> None:
    """A copy of the model for each level, ``folder/noise-LEVEL``; before the guest boots, which shares these files."""
    folder.chmod(0o755)
    program = str(CHECKOUT / "tests/engine/setup/model.py")
    argv = [str(PYTHON), program, str(folder), str(MODEL), str(seed), *(f"{level:g}" for level in LEVELS)]
    subprocess.run(argv, check=True)


def switched(service: Service, steps: Steps, name: str, said: str) -> Any:
    """The outcome of a switch to ``name``, in the table as ``said``."""
    with steps.step(said) as seen:
        code, answer = service.switch(name, "--force")
        assert code in (0, 3), answer
        failed = [check for check, found in answer["gate"].items() if found["verdict"] != "pass"]
        why = [f"{check}: {answer['gate'][check]['reason']}" for check in failed] or [answer["message"]]
        seen.append("passes" if code == 0 else f"**{answer['cause']}** ({why[0]})".replace("|", "/").replace("\n", " "))
    print(steps.table().splitlines()[-2], flush=True)
    return answer


def main() -> None:
    """Finds the level by halving and writes the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=random.randrange(10_000))
    seed = options.parse_args().seed
    steps = Steps()
    with tempfile.TemporaryDirectory(dir=CHECKOUT / ".engine") as models, tempfile.TemporaryDirectory() as folder:
        make_models(Path(models), seed)
        with served(Path(folder)) as service:
            write(service, "smol8", FOUR.replace("max_running = 4", "max_running = 8"))
            write(service, "smol4", FOUR)
            answer = service.operator.run("adopt", HOST, "--json", timeout=900)
            assert answer.code == 0, answer
            made = service.operator.run("golden", HOST, "--yes", "--json", timeout=900)
            assert made.code == 0, made
            print(made.json["message"], flush=True)
            restart = switched(service, steps, "smol4", "the same weights, max_running 8 → 4")
            assert restart["outcome"] == "committed", restart
            low, high = 0, len(LEVELS) - 1
            seen: list[float] = []
            while low <= high:
                middle = (low + high) // 2
                level = LEVELS[middle]
                path = Path(models) / f"noise-{level:g}"
                write(service, f"noise-{middle}", f'args = ["--model-path", "{path}"]\n{FOUR}')
                found = switched(service, steps, f"noise-{middle}", f"noise of {level:g}")
                if found["outcome"] == "rolled_back":
                    seen.append(level)
                    high = middle - 1
                else:
                    low = middle + 1
                    back = service.operator.run("rollback", HOST, "--yes", "--json", timeout=900)
                    assert back.code == 0, back
                wait_until("smol4 serves", lambda: service.runs("4", str(MODEL)), 300)
    missed = [level for level in LEVELS if not seen or level < min(seen)]
    (CHECKOUT / "docs/engine-gate.md").write_text(
        ABOUT.format(
            date=datetime.now(UTC).date(),
            seed=seed,
            golden=made.json["message"][0].upper() + made.json["message"][1:] + ".",
            rows="\n".join(f"| {name} | {seconds:.0f} | {said} |" for name, seconds, said in steps.rows),
            seen=f"{min(seen):g}" if seen else "none of these levels",
            missed=f"it passed at {max(missed):g}" if missed else "the lowest level tried was seen",
            not_planned="; ".join(f"{name} ({why})" for name, why in restart["not_planned"].items()) or "nothing",
            sizes=", ".join(line.replace(" = ", " ") for line in GATE.strip().splitlines()[1:]),
        )
    )


def write(service: Service, name: str, text: str) -> None:
    """A profile with this gate."""
    (service.operator.folder / "profiles" / f"{name}.toml").write_text(text + GATE)


if __name__ == "__main__":
    main()
