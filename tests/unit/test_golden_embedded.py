"""Reference answers through the whole product: from stable without a restart, from a visit that always comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tui.embedded import ROOT, serving, shorter_gates


def ddtune(*words: str) -> tuple[int, dict[str, Any]]:
    """One command's exit code and object."""
    command = [sys.executable, "-m", "ddtune.cli.main", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.timeout(400)
def test_references_are_made_kept_and_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    shorter_gates()
    with serving(100, DDTUNE_SIM_SCENARIO="near_ties:0.05", DDTUNE_SIM_TRAFFIC="0") as host:
        code, made = ddtune("golden", host)
        assert (code, made["outcome"], made["op"]) == (0, "made", None)
        assert made["golden"]["source"] == "stable"
        assert "does not support return_logprob" in made["golden"]["gaps_refused"]
        before = ddtune("status", host)[1]["service"]

        code, plan = ddtune("switch", host, "b16-eager", "--dry-run")
        assert plan["reference"].startswith("the reference of stable of ")

        code, visit = ddtune("golden", host, "--from", "ar", "--yes")
        assert (code, visit["outcome"], visit["cause"]) == (0, "rolled_back", "operator_request")
        assert visit["golden"]["gaps"]
        assert visit["golden"]["own"]["runs"] == 2 * visit["golden"]["prompts"]
        after = ddtune("status", host)[1]["service"]
        assert after["profile"] == before["profile"] == visit["stable"]["profile"], "a visit ends on stable"
        assert after["release"] == before["release"]

        code, judged = ddtune("gate", host, "--quick")
        assert code == 0, judged
        assert "the reference without speculation of" in judged["gate"]["agreement"]["reason"]
        assert "part where it was sure" in judged["gate"]["agreement"]["reason"]
        assert judged["gate"]["agreement"]["budget"] >= judged["gate"]["agreement"]["tokens"] > 0

        lines = ddtune("history", host)[1]["history"]
        assert [line["outcome"] for line in lines if line["event"] == "golden"] == ["made", "made"]
