"""The page of the run on a GPU is rendered from the committed result, and from nothing else."""

from __future__ import annotations

import json

import pytest

from tests.gpu.render import KEPT, PAGE, page, slim


@pytest.mark.skipif(not KEPT.exists(), reason="no run on a GPU is committed")
def test_the_page_is_what_the_committed_result_says() -> None:
    assert PAGE.read_text() == page(json.loads(KEPT.read_text()))


def test_what_was_not_run_is_said() -> None:
    machine = {"gpus": ["NVIDIA H200, 580.1, 143771 MiB"], "cores": 16, "kernel": "6.1", "python": "3.12.3"}
    stages = {"canary": {"ok": False, "error": "not run: the machine's time was over", "seconds": 0.0}}
    text = page({"commit": "0" * 40, "at": 0.0, "machine": machine, "stages": stages, "seconds": 12.0})
    assert "- `canary`: not run: the machine's time was over" in text
    assert "- `ngram16`: not run" in text
    assert "NVIDIA H200, 580.1, 143771 MiB" in text


def test_answers_tokens_are_not_kept() -> None:
    assert slim({"ids": [[1]], "c1": {"by_prompt": {"a": 1.0}, "tokens_per_s": 2.0}}) == {"c1": {"tokens_per_s": 2.0}}
