"""The command line is SGLang's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from ddtune.sim.engine import flags
from ddtune.sim.engine.launch import ArgumentsError, launch
from ddtune.sim.engine.settings import Settings

BASE = ["--model-path", "/models/m", "--tp-size", "8"]
TREE = [*BASE, "--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "/models/d"]


def _run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddtune.sim.engine", *argv],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env={**os.environ, **env},
    )


def test_an_unknown_flag_ends_with_usage_and_the_real_last_line() -> None:
    ended = _run(*BASE, "--no-such-flag", "1")
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: sglang serve [-h]")
    assert ended.stderr.splitlines()[-1] == "sglang serve: error: unrecognized arguments: --no-such-flag 1"


def test_help_names_every_flag_and_ends_well() -> None:
    ended = _run("--help")
    assert ended.returncode == 0
    named = set(re.findall(r"(?<![\w-])--[a-z0-9][a-z0-9-]*", ended.stdout))
    assert {
        "--model-path",
        "--tp",
        "--speculative-ddtree-budget",
        "--enable-nccl-nvls",
        "--disable-cuda-graph",
    } <= named
    assert "--disable-piecewise-cuda-graph" not in named
    assert len(named) > 500


def test_a_build_without_ddtree_lacks_its_flag_and_its_algorithm() -> None:
    refused = _run(*TREE, "--speculative-ddtree-budget", "8", DDTUNE_SIM_BUILD="plain")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].endswith("unrecognized arguments: --speculative-ddtree-budget 8")
    unknown = _run(*TREE, DDTUNE_SIM_BUILD="plain")
    assert unknown.returncode == 1
    assert unknown.stderr.splitlines()[-1] == "ValueError: Unknown speculative algorithm name: DDTREE"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--cuda-graph-max-bs", "8"], "ambiguous option: --cuda-graph-max-bs could match"),
        (["--cuda-graph-bs", "8"], "ambiguous option: --cuda-graph-bs could match"),
        (["--disable-piecewise-cuda-graph"], "unrecognized arguments: --disable-piecewise-cuda-graph"),
        (["--speculative-dflash-draft-window-size", "9"], "unrecognized arguments"),
        (["--cuda-graph-backend-prefill", "tc_piecewise"], "tc_piecewise was removed"),
        (["--port", "many"], "argument --port: invalid int value: 'many'"),
        (["--attention-backend", "magic"], "invalid choice: 'magic'"),
    ],
)
def test_spellings_that_this_version_refuses(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        launch([*BASE, *given], Settings())
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_prefixes_aliases_and_equals_signs_are_understood() -> None:
    args = launch(["--model=/models/m", "--tp=4", "--max-running", "7", "--dp", "1"], Settings()).args
    assert (args["model_path"], args["tp_size"], args["max_running_requests"]) == ("/models/m", 4, 7)
    assert args["served_model_name"] == "/models/m"


def test_the_tree_verifies_budget_and_one_rows_without_overlap() -> None:
    started = launch([*TREE, "--speculative-ddtree-budget", "12"], Settings(max_topk=8))
    assert started.args["speculative_num_draft_tokens"] == 13
    assert started.args["disable_overlap_schedule"] is True
    assert started.args["max_running_requests"] == 48
    assert (started.axes.budget, started.axes.topk, started.axes.draft_tokens) == (12, 8, 13)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--page-size", "64"], "page_size == 1"),
        (["--speculative-use-rejection-sampling"], "rejection"),
        (["--cuda-graph-config", "{"], "valid JSON"),
    ],
)
def test_arguments_that_parse_and_cannot_be_served(given: list[str], said: str) -> None:
    with pytest.raises(ArgumentsError, match=said):
        launch([*TREE, *given], Settings())


@pytest.mark.parametrize(
    ("given", "graphs", "prefill"),
    [
        ([], True, True),
        (["--disable-cuda-graph"], False, False),
        (["--disable-decode-cuda-graph"], False, True),
        (["--cuda-graph-backend-decode", "disabled"], False, True),
        (["--cuda-graph-backend-prefill", "disabled"], True, False),
        (["--cuda-graph-config", '{"decode": {"backend": "disabled"}}'], False, True),
    ],
)
def test_every_spelling_of_graphs_off(given: list[str], graphs: bool, prefill: bool) -> None:
    axes = launch([*TREE, *given], Settings()).axes
    assert (axes.graphs, axes.prefill_graphs) == (graphs, prefill)


def test_graphs_cover_batches_up_to_their_largest() -> None:
    axes = launch([*TREE, "--max-running-requests", "128", "--cuda-graph-max-bs-decode", "32"], Settings()).axes
    assert axes.graph_max_bs == 32
    assert axes.in_graph(32)
    assert not axes.in_graph(33)


@pytest.mark.parametrize(
    ("given", "env", "nvls"),
    [
        ([], None, False),
        (["--enable-nccl-nvls"], None, True),
        (["--enable-symm-mem"], "0", True),
        ([], "1", True),
        ([], "0", False),
    ],
)
def test_nvls_is_the_flag_or_else_the_variable(given: list[str], env: str | None, nvls: bool) -> None:
    assert launch([*BASE, *given], Settings(nvls_env=env)).axes.nvls is nvls


def test_every_flag_of_the_usage_is_parsed() -> None:
    parser = flags.parser("ddtree")
    text = parser.format_usage()
    for option in set(re.findall(r"--[a-z0-9-]+", text)):
        assert option in parser.format_help()
