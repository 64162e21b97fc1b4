"""The graph canary's own program with a real torch on the CPU, and a kernel that stands for the engine's.

Needs a Python with torch: this one, that of ``make test-engine``, or the one that DDTUNE_TEST_TORCH names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ddtune.gate.graph_canary import CanaryReport, Sound, judge
from ddtune.inengine.graph_canary import PLACES, heads_of, model_config
from ddtune.onhost import in_engine

ENGINE = Path(__file__).parents[3] / ".engine/venv/bin/python"

# Attention as the engine's kernel is called, in plain torch; FAULT is what is wrong with it.
KERNEL = """
import torch
def extend_attention_fwd(q, k, v, o, k_cache, v_cache, q_start, kv_start, kv_slots, mask, causal, mask_start, longest,
                         SCALES sm_scale=None, logit_cap=0.0):
    group = q.shape[1] // k.shape[1]
    for one in range(len(q_start) - 1):
        rows = slice(int(q_start[one]), int(q_start[one + 1]))
        slots = kv_slots[int(kv_start[one]):int(kv_start[one + 1])]
        nodes, width = rows.stop - rows.start, len(slots) + rows.stop - rows.start
        seen = mask[int(mask_start[one]):][: nodes * width].view(nodes, width)
        keys = torch.cat([k_cache[slots], k[rows]]).repeat_interleave(group, 1)
        values = torch.cat([v_cache[slots], v[rows]]).repeat_interleave(group, 1)
        FAULT
        scores = torch.einsum("qhd,khd->hqk", q[rows], keys) * sm_scale
        o[rows] = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, float("-inf")).softmax(-1), values)
"""


@cache
def torch_python() -> str | None:
    """A Python that has torch."""
    if importlib.util.find_spec("torch"):
        return sys.executable
    found = os.environ.get("DDTUNE_TEST_TORCH") or (str(ENGINE) if ENGINE.exists() else None)
    return found if found and Path(found).exists() else None


needs_torch = pytest.mark.skipif(torch_python() is None, reason="no Python with torch: make test-engine installs one")


def package(folder: Path, place: str, fault: str = "", scales: str = "k_scale, v_scale,") -> None:
    """An engine with the kernel at ``place``."""
    file = folder.joinpath(*place.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    for above in file.relative_to(folder).parents:
        (folder / above / "__init__.py").touch() if above.parts else None
    file.write_text(KERNEL.replace("FAULT", fault or "pass").replace("SCALES", scales))


def run(
    path: Path | None, model: str = "/nowhere", budgets: tuple[int, ...] = (4,), batches: tuple[int, ...] = (1, 2)
) -> CanaryReport:
    request = {"budgets": budgets, "batches": batches, "model": model, "attention_ranks": 1}
    request |= {"least_free_mib": 2048, "seed": 0}
    source = in_engine.source("ddtune.inengine.graph_canary")
    done = subprocess.run(
        [torch_python() or "", "-c", source or ""],
        input=json.dumps(request).encode(),
        env={"PATH": os.defpath, "HOME": "/nonexistent", **({"PYTHONPATH": str(path)} if path else {})},
        capture_output=True,
        check=False,
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    one = {"pid": 1, "status": done.returncode, "lines": lines, "tail": done.stderr.decode()}
    answer = {"info": {}, "backend": "triton", "runs": [one], "xids": [], "kernel_log": True}
    return judge(answer, budgets)


def only(report: CanaryReport) -> tuple[Sound, str]:
    (one,) = report.budgets
    return one.verdict, one.reason


@needs_torch
@pytest.mark.parametrize(("place", "scales"), [(PLACES[0], "k_scale, v_scale,"), (PLACES[1], "")])
def test_eager_is_compared_with_float32_wherever_the_kernel_lies(tmp_path: Path, place: str, scales: str) -> None:
    package(tmp_path, place, scales=scales)
    report = run(tmp_path)
    assert report.kernel == place
    assert [shape["name"] for shape in report.shapes] == ["mla", "gqa"]
    one = report.budgets[0]
    assert (one.verdict, one.cases) == (Sound.NOT_COVERED, 4), one
    assert "without a GPU no graph was replayed" in one.reason
    assert one.eager_error is not None
    assert one.eager_error < 1e-5
    assert one.stale_error is not None
    assert one.stale_error > 0.01


@needs_torch
@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ("seen = seen.clone(); seen[:, :-nodes] = True; seen[-1, 0] = False", Sound.WRONG),
        ("seen = torch.ones_like(seen)", Sound.WRONG),
        ("values = values.nan_to_num(0.0); keys = keys.nan_to_num(0.0)", Sound.INCONCLUSIVE),
        ("values = values.roll(1, 0)", Sound.WRONG),
        ("raise RuntimeError('CUDA error: an illegal memory access was encountered')", Sound.CRASH),
        ("raise TypeError('no such argument')", Sound.NOT_COVERED),
        ("import os; os.abort()", Sound.CRASH),
    ],
)
def test_a_kernel_that_is_wrong_is_told(tmp_path: Path, fault: str, verdict: Sound) -> None:
    package(tmp_path, PLACES[0], fault)
    assert only(run(tmp_path))[0] is verdict


@needs_torch
def test_the_control_of_a_small_tree_is_as_strong_as_any(tmp_path: Path) -> None:
    package(tmp_path, PLACES[0])
    budgets = (1, 2, 3, 4, 7)
    report = run(tmp_path, budgets=budgets, batches=(1,))
    assert [one.budget for one in report.budgets] == list(budgets)
    assert min(one.stale_error or 0.0 for one in report.budgets) > 0.05


@needs_torch
def test_a_build_without_it_is_not_covered(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/__init__.py").touch()
    assert only(run(tmp_path))[0] is Sound.NOT_COVERED


@pytest.mark.skipif(not ENGINE.exists(), reason="no real SGLang: make test-engine installs one")
def test_the_real_kernel_in_tritons_interpreter_is_right() -> None:
    report = run(None, model=str(ENGINE.parents[2] / "model/smollm2"), budgets=(4,))
    assert (report.kernel, report.shape_source) == (PLACES[0], "model")
    one = report.budgets[0]
    assert "eager is right" in one.reason, one
    assert one.eager_error is not None
    assert one.eager_error < 1e-5


def test_heads_are_read_from_a_models_config(tmp_path: Path) -> None:
    kimi = {"text_config": {"num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64}}
    one = heads_of(kimi, 8)
    assert one is not None
    assert (one.name, one.query, one.kv, one.qk_width, one.v_width, one.latent) == ("mla", 8, 1, 576, 512, True)
    llama = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576}
    one = heads_of(llama, 1)
    assert one is not None
    assert (one.name, one.query, one.kv, one.qk_width, one.latent) == ("gqa", 9, 3, 64, False)
    shared = heads_of({"num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128}, 8)
    assert shared is not None
    assert (shared.query, shared.kv) == (4, 1)
    assert heads_of({}, 8) is None
    (tmp_path / "config.json").write_text(json.dumps(llama))
    assert model_config(str(tmp_path)) == llama
    assert model_config(str(tmp_path / "nowhere")) is None
