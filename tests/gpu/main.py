"""The run on a GPU: profiles, faults, canary and watching, each a stage of one result file.

``python -m tests.gpu.main --engine COMMAND [--out FOLDER] [--commit NAME] [--until SECONDS]``. COMMAND serves ngram16;
from it the other profiles are made by switches. Ends 0 when every stage was run and is as it should be, else 1.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ddtune.bench.compare import compare
from tests.gpu import expected, faults, load, watching
from tests.gpu.result import Result, attempt
from tests.gpu.served import Served, together

FIRST = "ngram16"
SWITCHES = ("ngram8", "ngram32", "ngram16-eager", "ar")
BUDGETS = "4,7,8,12,15,16,31,32,64"
CHECK_FAILED = 9
CANARY_S, SWITCH_S, FAULT_S, HOST_S = 60.0, 150.0, 180.0, 120.0


class Run:
    """One run of everything, into ``result``."""

    def __init__(self, engine: str, out: Path, result: Result) -> None:
        self.engine, self.out, self.result = engine, out, result
        self.rows: dict[str, dict[str, Any]] = {}

    def all(self) -> None:
        """Every stage, the measured ones alone on the machine."""
        with self.host("host") as host:
            if host is None:
                return
            self.adopt(host, "adopt")
            attempt(lambda: self.measured(host, FIRST, None))
            attempt(lambda: self.watched(host))
            attempt(lambda: self.canary(host))
            for name in SWITCHES:
                attempt(lambda name=name: self.measured(host, name, name))
            self.broken(host)
            # Last, and with nobody else on the GPU.
            attempt(lambda: self.fault(host, "memory_filled", faults.memory_filled))
        self.compared()

    def broken(self, host: Served) -> None:
        """The other faults, on three hosts at once; one of the fresh ones is the second arm of ``ngram16``."""
        fresh: dict[str, Served | None] = {}
        stack = contextlib.ExitStack()

        def bring(name: str) -> None:
            found = stack.enter_context(self.host(name))
            fresh[name] = found
            if found is not None:
                self.adopt(found, f"{name}: adopt")

        with stack:
            together(
                lambda: bring("second"),
                lambda: bring("third"),
                lambda: attempt(lambda: self.fault(host, "sigterm_under_load", faults.sigterm_under_load)),
            )
            second, third = fresh.get("second"), fresh.get("third")
            if second is not None:
                attempt(lambda: self.measured(second, "second arm", None))
            works = [lambda: attempt(lambda: self.fault(host, "wrong_flag", faults.wrong_flag))]
            if second is not None:
                works.append(lambda: attempt(lambda: self.fault(second, "scheduler_killed", faults.scheduler_killed)))
            if third is not None:
                works.append(lambda: attempt(lambda: self.fault(third, "scheduler_stopped", faults.scheduler_stopped)))
            together(*works)

    @contextlib.contextmanager
    def host(self, name: str) -> Any:
        """A fresh host whose engine serves, or None where it did not come up; its journal is kept."""
        folder = self.out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        host: Served | None = None
        with contextlib.suppress(Exception), self.result.stage(f"{name}: up", HOST_S) as row:
            host = Served(self.engine, folder)
            row |= {"ready_s": host.ready_s, "simulated": host.simulated, "argv": host.argv(), "ok": not host.simulated}
        try:
            yield host
        finally:
            if host is not None:
                host.close(self.out / f"journal-{name}.jsonl")

    def adopt(self, host: Served, stage: str) -> None:
        """Adoption judges what runs and restarts nothing."""

        def work() -> None:
            with self.result.stage(stage, 60) as row:
                pid = host.main_pid()
                said = host.run("adopt", host.name)
                row |= {"exit": said.code, "said": said.json, "took_s": said.seconds}
                row["ok"] = said.code == 0 and host.main_pid() == pid
                if said.code == CHECK_FAILED:
                    # What the gate holds against so small a model is a result; the rest of the run needs the adoption.
                    row |= {
                        "error": str(said.json.get("error")),
                        "forced": host.run("adopt", host.name, "--force").code,
                    }

        attempt(work)

    def measured(self, host: Served, stage: str, profile: str | None) -> None:
        """A profile, switched to unless it runs, under load."""
        with self.result.stage(stage, SWITCH_S) as row:
            if profile is not None:
                said = host.switch(profile)
                row |= {"exit": said.code, "switch": said.json, "took_s": said.seconds}
                if said.code:
                    row |= {"ok": False, "error": f"{said.json.get('outcome')}: {said.json.get('message')}"}
                    row["progress"] = said.err
                    return
            row |= load.measure(host)
            self.rows[stage] = row
            expected.hold(row, expected.reading(row["c16"]["status"]))

    def watched(self, host: Served) -> None:
        """status, the dashboard's picture and the collector's cost, all under load."""
        with self.result.stage("watching", 90) as row, load.flow(host, 8, []):
            row["screenshots"] = watching.screenshot(host, self.out)
            row |= watching.collector_cost(host)
            expected.hold(row, expected.reading(host.run("status", host.name, timeout=60).json))

    def canary(self, host: Served) -> None:
        """The graph canary beside the service, which must not be touched."""
        with self.result.stage("canary", CANARY_S) as row:
            pid, before = host.main_pid(), host.argv()
            said = host.run("canary", host.name, "--budgets", BUDGETS)
            plan = host.run("switch", host.name, "ngram32", "--dry-run")
            row |= {"exit": said.code, "said": said.json, "took_s": said.seconds, "plan": plan.json.get("canary")}
            row["ok"] = said.code == 0 and (host.main_pid(), host.argv()) == (pid, before) and host.healthy()

    def fault(self, host: Served, name: str, work: Any) -> None:
        """One fault; as it should be when it was told for what it was and the host came back by itself."""
        with self.result.stage(name, FAULT_S) as row:
            row |= work(host)
            expected.hold(row, [*expected.fault(name, row), *([] if host.healthy() else ["the host does not serve"])])

    def compared(self) -> None:
        """What the arms say of each other, by the prompts alone at one request."""
        speeds = {name: row["c1"]["by_prompt"] for name, row in self.rows.items()}
        pairs = [(FIRST, "second arm"), (FIRST, "ngram16-eager"), ("ar", FIRST)]
        found = {f"{a} → {b}": asdict(compare(speeds[a], speeds[b])) for a, b in pairs if a in speeds and b in speeds}
        ids = {name: row["ids"] for name, row in self.rows.items()}
        equal = {
            f"{FIRST} and {other}": _equal(ids[FIRST], ids[other]) for other in ids if other != FIRST and FIRST in ids
        }
        self.result.put(compared=found, equal_answers=equal)


def _equal(one: list[list[int]], other: list[list[int]]) -> str:
    same = sum(a == b for a, b in zip(one, other, strict=True))
    return f"{same} of {len(one)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--out", type=Path, default=Path("build/gpu-run"))
    parser.add_argument("--commit", default="")
    parser.add_argument("--until", type=float, default=3600.0)
    asked = parser.parse_args()
    out = asked.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    commit = (
        asked.commit
        or subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    )
    began = time.monotonic()
    result = Result(out / "result.json", commit, began, asked.until)
    result.put(engine=asked.engine)
    Run(asked.engine, out, result).all()
    result.put(seconds=round(time.monotonic() - began, 1), complete=True)
    return 0 if all(row["ok"] for row in result.data["stages"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
