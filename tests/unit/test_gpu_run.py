"""The run on a GPU, without one: what it demands of its stages, and that it refuses a machine that has none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import expected
from tests.gpu.render import KEPT

RUN = Path(__file__).parents[1] / "gpu/run"


@pytest.fixture(scope="module")
def stages() -> dict[str, Any]:
    """The stages of the committed result, which were all seen by a person."""
    return dict(json.loads(KEPT.read_text())["stages"])


def test_the_committed_faults_are_as_they_must_be(stages: dict[str, Any]) -> None:
    assert [said for name in expected.FAULTS for said in expected.fault(name, stages[name])] == []


@pytest.mark.parametrize("name", expected.FAULTS)
@pytest.mark.parametrize(
    "changed",
    [{"outcome": "committed"}, {"cause": None}, {"detected_s": 1e4}, {"restarted": True}, {"on_stable": False}],
)
def test_a_fault_told_otherwise_is_not_ok(name: str, changed: dict[str, Any], stages: dict[str, Any]) -> None:
    want, (key,) = expected.FAULTS[name], changed
    asked = {
        "detected_s": want.within_s is not None,
        "restarted": want.restarted is not None,
        "on_stable": want.on_stable,
    }
    row: dict[str, Any] = {**stages[name], **changed}
    expected.hold(row, expected.fault(name, row))
    assert row["ok"] is not asked.get(key, True)
    assert bool(row["error"]) is asked.get(key, True)


def test_a_loaded_gpu_must_give_watts_gpm_and_tokens(stages: dict[str, Any]) -> None:
    status = stages["ngram8"]["c16"]["status"]
    assert expected.reading(status) == []
    (gpu,) = status["gpus"]
    for key in ("power_w", "sm_util", "tensor_util"):
        assert expected.reading({**status, "gpus": [{**gpu, key: None}]}) == [f"GPU 0 has no {key}"]
    for rate in (0.0, None):
        slow = {**status, "service": {**status["service"], "tokens_per_s": rate}}
        assert expected.reading(slow) == [f"status shows {rate} tokens/s under load"]
    assert len(expected.reading(None)) == 2


@pytest.mark.parametrize(
    ("smi", "engine", "text"),
    [
        (None, "serve", "this machine has no nvidia-smi"),
        ("exit 9", "serve", "nvidia-smi finds no GPU"),
        ("echo 'GPU 0: NVIDIA H200'", "", "set DDTUNE_GPU_ENGINE"),
    ],
)
def test_without_a_gpu_or_an_engine_it_says_so_and_fails(
    smi: str | None, engine: str, text: str, tmp_path: Path
) -> None:
    for name in ("bash", "dirname", "grep"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    if smi is not None:
        (tmp_path / "nvidia-smi").write_text(f"#!{tmp_path}/bash\n{smi}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    env = {**os.environ, "PATH": str(tmp_path), "DDTUNE_GPU_ENGINE": engine, "DDTUNE_PYTHON": "false"}
    done = subprocess.run([tmp_path / "bash", RUN], env=env, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert text in done.stderr
