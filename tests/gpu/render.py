"""Makes docs/gpu-run.md from the committed result of a run on a GPU.

``python -m tests.gpu.render`` renders ``tests/gpu/h200.json``. With ``--keep FOLDER`` what a run left in FOLDER becomes
that file first, without the answers' tokens, and its pictures go to screenshots/ (PNGs need a Chromium).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddtune.bench.compare import judged

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests/gpu/h200.json"
PAGE = ROOT / "docs/gpu-run.md"
PROFILES = ("ngram8", "ngram16", "second arm", "ngram32", "ngram16-eager", "ar")
FAULTS = {
    "scheduler_killed": "scheduler killed (`kill -9`) while a trial is gated",
    "scheduler_stopped": "scheduler stopped (SIGSTOP) while a trial is gated",
    "memory_filled": "GPU memory taken while a trial starts",
    "wrong_flag": "a flag that the engine does not know",
    "sigterm_under_load": "SIGTERM to the engine under load, in probation",
}
DROPPED = ("ids", "progress", "trace", "by_prompt", "shapes", "incidents", "xids", "txn", "notes", "alarms")
NONE = "—"


def slim(value: Any) -> Any:
    """A result without what only the run itself needs."""
    if isinstance(value, Mapping):
        return {name: slim(one) for name, one in value.items() if name not in DROPPED}
    return [slim(one) for one in value] if isinstance(value, list) else value


def page(data: Mapping[str, Any]) -> str:
    """The page."""
    stages: Mapping[str, Mapping[str, Any]] = data["stages"]
    parts = [
        _head(data),
        "## Profiles\n\n" + _profiles(stages),
        "## Two arms\n\n" + _arms(data),
        "## Faults\n\n" + _faults(stages),
        "## The graph canary, beside the service\n\n" + _canary(stages.get("canary")),
        "## Watching\n\n" + _watching(stages.get("watching")),
        "## Not run, or not as it should be\n\n" + _missing(stages),
        "## Command lines, from /proc\n\n" + _argvs(stages),
    ]
    return "\n\n".join(parts) + "\n"


def _head(data: Mapping[str, Any]) -> str:
    machine = data["machine"]
    date = datetime.fromtimestamp(data["at"], UTC).date()
    return (
        "# A run on a real GPU\n\n"
        f"Rendered by `python -m tests.gpu.render` from `tests/gpu/h200.json`, which `make test-gpu` made on {date}: "
        f"commit `{data['commit'][:12]}`, {'; '.join(machine['gpus']) or 'no GPU'} (name, driver, memory), "
        f"{machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}; "
        f"{number(data.get('seconds'), 0)} s in all. "
        "SGLang with NGRAM speculation (a token tree under a mask, Triton attention) on SmolLM2-135M, as the service "
        "of the embedded host: SSH server, launcher, collector and gate as on any host, a stand-in for systemd, "
        "engine and GPU real. One run of each, so no error bars."
    )


def _profiles(stages: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name in PROFILES:
        row = stages.get(name)
        if not row or "c1" not in row:
            continue
        switch = row.get("switch") or {}
        phases = switch.get("phases") or {}
        gpu = ((row["c16"]["status"] or {}).get("gpus") or [{}])[0]
        start = phases.get("start")
        ready = sum(start.values()) if isinstance(start, Mapping) else stages.get(_host_of(name), {}).get("ready_s")
        gpm = " / ".join(number(gpu.get(key), 1) for key in ("sm_util", "dram_util", "tensor_util"))
        accept = f"{number(row['c1']['accept_length'], 1)} / {number(row['c16']['accept_length'], 1)}"
        rows.append(
            [
                name,
                switch.get("outcome") or "adopted",
                number(ready, 1),
                number(switch.get("downtime_s"), 1),
                number(switch.get("own_s"), 1),
                number(row["c1"]["tokens_per_s"], 0),
                number(row["c16"]["tokens_per_s"], 0),
                accept,
                number(gpu.get("power_w"), 0),
                number(gpu.get("util"), 0),
                gpm,
                ", ".join(f"{mode} {count:.0f}" for mode, count in row["graph_passes"].items() if count) or NONE,
            ]
        )
    head = ["profile", "switch", "start s", "down s", "own s", "tok/s C=1", "tok/s C=16", "accept C=1 / C=16", "W"]
    return table([*head, "NVML util %", "GPM SM / DRAM / tensor %", "passes under load"], rows) + (
        "\n\n`ngram16` was adopted as it ran; the others are switches behind the whole gate. W, utilisation and GPM "
        "are ddtune's own reading (`ddtune status`) under 16 requests at once. N-gram speculation learns from what it "
        "has answered, so each row's accept length is that of one history."
    )


def _host_of(name: str) -> str:
    return "second: up" if name == "second arm" else "host: up"


def _arms(data: Mapping[str, Any]) -> str:
    found = {
        pair: said if said["ratio"] is None else asdict(judged(said["ratio"], said["low"], said["high"], said["pairs"]))
        for pair, said in (data.get("compared") or {}).items()
    }
    rows = [[pair, f"**{said['word']}**", said["reason"]] for pair, said in found.items()]
    equal = "; ".join(f"{pair}: {said}" for pair, said in (data.get("equal_answers") or {}).items())
    return table(["first → second", "ddtune says", "why"], rows) + (
        "\n\n`second arm` is `ngram16` again on a fresh host and server: the same prompts in the same order after the "
        f"same warm-up. Greedy answers of 128 tokens that are equal, at C=1: {equal or NONE}."
    )


def _faults(stages: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, words in FAULTS.items():
        row = stages.get(name)
        if not row or "outcome" not in row:
            continue
        host = (row.get("phases") or {}).get("host") or {}
        seen = (row.get("evidence") or [{}])[0].get("text") or row.get("text") or row.get("message")
        ended = (row.get("outcome") or NONE).replace("_", " ")
        if name == "sigterm_under_load":
            answered = f"of 11 requests {row.get('answered')} answered, {row.get('failed')} failed"
            ended += f", {row.get('profile')} serves; {answered}"
        rows.append(
            [
                words,
                number(row.get("detected_s"), 1),
                number(host.get("fatal_to_begun"), 2),
                str(row.get("cause")),
                ended,
                number(row.get("back_s"), 1),
                cell(str(seen or NONE), 160),
            ]
        )
    head = ["fault", "decided after s", "line → rollback s", "cause", "outcome", "serving again after s", "evidence"]
    return table(head, rows)


def _canary(row: Mapping[str, Any] | None) -> str:
    said = (row or {}).get("said") or {}
    if "budgets" not in said:
        return "Not run."
    rows = [
        [
            budget,
            one["verdict"].replace("_", " "),
            number(one["eager_error"], 4),
            number(one["replay_error"], 4),
            number(one["stale_error"], 3),
            str(one["cases"]),
            number(one["seconds"], 1),
            cell(one["reason"], 120),
        ]
        for budget, one in said["budgets"].items()
    ]
    gpu = said.get("gpu") or {}
    plan = (row or {}).get("plan") or {}
    head = ["budget", "verdict", "eager error", "replay error", "control (stale mask)", "cases", "s", "why"]
    return (
        table(head, rows)
        + f"\n\n`{said.get('kernel')}` on {gpu.get('name')} with {number(gpu.get('free_mib'), 0)} MiB free, heads by "
        f"the {said.get('shape_source')}; {number(said.get('seconds'), 1)} s in all, the service served on. "
        f"Not covered: {'; '.join(said.get('not_covered') or ())}. "
        f"The plan of a switch to `ngram32` then says: {plan.get('verdict')} at budget {plan.get('budget')}."
    )


def _watching(row: Mapping[str, Any] | None) -> str:
    if not row or "cpu_percent" not in row:
        return "Not measured."
    return (
        f"The collector took {row['cpu_percent']} % of one core and {row['rss_mib']} MiB while 8 requests ran at once "
        f"(over {row['measured_s']} s, off /proc).\n\n![the dashboard on an H200](../screenshots/h200-160x48.png)"
    )


def _missing(stages: Mapping[str, Mapping[str, Any]]) -> str:
    known = {"host: up", "adopt", *PROFILES, "watching", "canary", *FAULTS, "second: up", "third: up"}
    lines = [f"- `{name}`: {cell(str(row['error']), 300)}" for name, row in stages.items() if row["ok"] is not True]
    lines += [f"- `{name}`: not run" for name in sorted(known - set(stages))]
    lines.append(
        "- More than one GPU, NVLink, tensor parallelism, DDTree itself and a real systemd: not on this machine."
    )
    return "\n".join(lines)


def _argvs(stages: Mapping[str, Mapping[str, Any]]) -> str:
    found = {name: " ".join(row["argv"]) for name, row in stages.items() if name in PROFILES and row.get("argv")}
    return "\n".join(f"- `{name}`: `{argv}`" for name, argv in found.items()) or "None read."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def number(value: Any, digits: int) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) and not isinstance(value, bool) else NONE


def cell(text: str, length: int) -> str:
    """One line without what a table would take for its own."""
    flat = " ".join(text.replace("|", "/").split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def keep(folder: Path) -> None:
    """What a run left becomes the committed result."""
    data = slim(json.loads((folder / "result.json").read_text()))
    KEPT.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    for svg in sorted(folder.glob("h200-*.svg")):
        target = ROOT / "screenshots" / svg.name
        shutil.copyfile(svg, target)
        _png(target)


def _png(svg: Path) -> None:
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "scripts/screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.png(svg)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    if asked.keep is not None:
        keep(asked.keep)
    PAGE.write_text(page(json.loads(KEPT.read_text())))


if __name__ == "__main__":
    main()
