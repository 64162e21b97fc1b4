from __future__ import annotations

import pytest

from ddtune.profiles.lint import lint
from ddtune.profiles.model import AxisValue, Base, Profile, Remark
from tests.unit.test_profiles_resolve import BASE, DDTREE, DIALECTS, PROFILES


def remarks(base: str | None = None, flags: tuple[str, ...] = (), **axes: AxisValue) -> list[Remark]:
    return lint(Profile("p", axes), DDTREE, flags, Base(tuple(base.split()), "/") if base else None)


@pytest.mark.parametrize("name", sorted(name for name in PROFILES if not name.startswith("ngram")))
def test_shipped_profiles_are_clean(name: str) -> None:
    assert lint(PROFILES[name], DDTREE, (), BASE) == []


@pytest.mark.parametrize("name", sorted(name for name in PROFILES if name.startswith("ngram")))
def test_a_profile_of_another_dialect_is_refused_with_one_remark(name: str) -> None:
    assert lint(PROFILES[name], DIALECTS["ngram"]) == []
    found = lint(PROFILES[name], DDTREE, (), BASE)
    assert [(remark.blocks, remark.cause) for remark in found] == [(True, "unsupported_axis")]
    assert "algorithm = ngram, which the dialect 'ddtree-pr29907' of this service does not know" in found[0].text


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        ({"bugdet": 8}, "no axis 'bugdet' (did you mean budget?)"),
        ({"symm_mem": True, "nvls": False}, "symm_mem turns NVLS on"),
        ({"budget": 0}, "budget must be a whole number from 1"),
        ({"topk": True}, "topk must be a whole number from 1"),
        ({"algorithm": "eagle"}, "algorithm = eagle, which"),
    ],
)
def test_what_blocks(axes: dict[str, AxisValue], text: str) -> None:
    found = [remark for remark in remarks(**axes) if text in remark.text]
    assert found
    assert found[0].blocks


@pytest.mark.parametrize(
    ("base", "axes", "text", "blocks"),
    [
        ("py --page-size 64 --speculative-draft-model d", {"algorithm": "ddtree"}, "--page-size 1, not 64", True),
        ("py --x", {"algorithm": "ddtree"}, "needs a draft model", True),
        ("py --speculative-use-rejection-sampling", {"algorithm": "ddtree"}, "rejection-sampling", True),
        ("py --speculative-num-draft-tokens 8", {"algorithm": "ddtree", "budget": 7}, "a plain chain", False),
        ("py --speculative-num-draft-tokens 8", {"algorithm": "ddtree", "budget": 12}, "verifies 13 rows", False),
        ("py --config x.yaml", {}, "--config file", False),
        ("py --cuda-graph-config {}", {"graphs": False}, "--cuda-graph-config", False),
        ("py --speculative-new 1", {"algorithm": "none"}, "looks speculative", False),
        ("py --x", {"algorithm": "none", "budget": 8}, "left out", False),
        ("py --x", {"algorithm": "ddtree", "overlap": True}, "overlap", False),
        ("py --x", {"algorithm": "ddtree", "symm_mem": True}, "torch before 2.13 or NCCL before 2.30.7", False),
        ("py --x", {"algorithm": "ddtree"}, "refuses requests for logprobs or with a grammar", False),
        (
            "py --context-length 262144 --max-running-requests 128",
            {"algorithm": "ddtree", "budget": 16},
            "takes 4.6 GB on each GPU: 128 requests × 17 rows × 262144 tokens",
            False,
        ),
        (
            "py --context-length 262144 --max-running-requests 999 --cuda-graph-max-bs 64",
            {"algorithm": "ddtree", "budget": 64},
            "takes 8.7 GB on each GPU: 64 requests × 65 rows",
            False,
        ),
    ],
)
def test_what_a_base_adds(base: str, axes: dict[str, AxisValue], text: str, blocks: bool) -> None:
    found = [remark for remark in remarks(base, **axes) if text in remark.text]
    assert found
    assert found[0].blocks is blocks


def test_what_the_base_brings_counts_as_if_the_profile_said_it() -> None:
    tree = "py --speculative-algorithm DDTREE --speculative-num-draft-tokens 8 --speculative-draft-model-path d"
    buffer = " --context-length 262144 --max-running-requests 128"
    texts = [remark.text for remark in remarks(tree + buffer, budget=16)]
    assert any("verifies 17 rows" in text for text in texts)
    assert any("index buffer takes 4.6 GB" in text for text in texts)
    assert any("symmetric memory" in r.text for r in remarks(tree + " --enable-symm-mem", budget=16))
    assert not [r for r in remarks(tree + buffer, budget=16, algorithm="none") if "rows" in r.text]


def test_a_budget_that_fits_its_rows_is_fine() -> None:
    base = "py --speculative-num-draft-tokens 13 --speculative-draft-model-path d"
    assert [r.text for r in remarks(base, algorithm="ddtree", budget=13) if "rows" in r.text]
    assert not [r.text for r in remarks(base.replace("13", "9"), algorithm="ddtree", budget=8) if "rows" in r.text]


def test_flags_that_the_build_lacks() -> None:
    found = remarks(flags=("--port",), max_running=8)
    assert [(remark.blocks, remark.cause) for remark in found] == [(True, "unsupported_axis")]
    assert "--max-running-requests" in found[0].text
    own = lint(Profile("p", {}, ("--prot", "1")), DDTREE, ("--port",))
    assert "no --prot (did you mean --port?)" in own[0].text
    none = lint(Profile("p", {"budget": 8}), DIALECTS["none"], ("--port",))
    assert any("--speculative-ddtree-budget" in remark.text for remark in none)


def test_abbreviations_are_pointed_at() -> None:
    found = remarks("py --max-running 4", ("--max-running-requests", "--x"))
    assert "--max-running is an abbreviation (--max-running-requests)" in found[0].text


@pytest.mark.parametrize(
    ("base", "axes"),
    [
        ("py --context-length 262144 --max-running-requests 128", {"algorithm": "ddtree", "budget": 8}),
        (
            "py --context-length 262144 --max-running-requests 128",
            {"algorithm": "ddtree", "budget": 64, "graphs": False},
        ),
        ("py --max-running-requests 128", {"algorithm": "ddtree", "budget": 64}),
    ],
)
def test_a_small_or_unknown_buffer_is_no_remark(base: str, axes: dict[str, AxisValue]) -> None:
    assert not [remark for remark in remarks(base, **axes) if "index buffer" in remark.text]


def test_clients_of_a_tree_lose_nothing_by_another_tree() -> None:
    running = "py --speculative-algorithm DDTREE --speculative-draft-model-path d"
    found = remarks(running, algorithm="ddtree", budget=16)
    assert not [remark for remark in found if "logprobs" in remark.text]
