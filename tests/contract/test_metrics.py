"""Every metric family of the simulated engine is a real one: name, type, help, labels and bucket edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

# A label whose values mean something; others name models, processes and paths.
TELLING = (
    "mode",
    "phase",
    "stage",
    "category",
    "kind",
    "rank_state",
    "cache_source",
    "component",
    "is_streaming",
    "le",
)
SAMPLES = ("0.5.23/metrics_under_load.body", "0.5.17-h200/ngram16_g_metrics_c16.txt", "0.5.23/metrics_idle.body")


def _families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def _series(family: Any) -> set[tuple[str, frozenset[str], frozenset[tuple[str, str]]]]:
    return {
        (
            one.name,
            frozenset(one.labels),
            frozenset((label, value) for label, value in one.labels.items() if label in TELLING),
        )
        for one in family.samples
    }


@pytest.fixture(scope="module")
def real(sample: Callable[[str], str]) -> list[dict[str, Any]]:
    return [_families(sample(name)) for name in SAMPLES]


@pytest.mark.parametrize("body", ["metrics", "metrics_aborted"])
@pytest.mark.parametrize("engine", ["tree", "plain"])
def test_every_family_and_series_is_a_real_one(
    engine: str, body: str, request: pytest.FixtureRequest, real: list[dict[str, Any]], excused: Any
) -> None:
    known = {entry["name"] for entry in excused["family"]}
    for name, family in _families(request.getfixturevalue(engine).bodies[body]).items():
        if name in known:
            continue
        models = [families[name] for families in real if name in families]
        assert models, f"no real server exposes {name}"
        assert family.type == models[0].type
        assert family.documentation == models[0].documentation
        series = set().union(*(_series(model) for model in models))
        if name == "sglang:http_responses":
            continue
        assert _series(family) <= series | _per_streaming(series), f"{name}: {_series(family) - series}"


def _per_streaming(series: set[Any]) -> set[Any]:
    """A server that saw only one kind of request has only that kind's series; the other's look the same."""
    swap = {"true": "false", "false": "true"}
    return {
        (
            name,
            labels,
            frozenset((label, swap[value] if label == "is_streaming" else value) for label, value in telling),
        )
        for name, labels, telling in series
    }


def test_no_family_of_the_newest_server_is_missing(tree: Any, sample: Callable[[str], str]) -> None:
    text = tree.bodies["metrics_aborted"]
    assert not set(_families(sample("0.5.23/metrics_under_load.body"))) - set(_families(text))


def test_an_idle_occupancy_is_not_a_number(tree: Any, sample: Callable[[str], str]) -> None:
    line = next(line for line in tree.bodies["metrics"].splitlines() if line.startswith("sglang:fwd_occupancy"))
    assert line.endswith(" NaN")
    assert any(
        real.startswith("sglang:fwd_occupancy") and real.endswith("NaN") for real in sample(SAMPLES[0]).splitlines()
    )


def test_modes_that_were_never_used_have_no_series(tree: Any, plain: Any) -> None:
    def modes(text: str) -> set[str]:
        return {one.labels["mode"] for one in _families(text)["sglang:cuda_graph_passes"].samples}

    assert "decode_cuda_graph" in modes(tree.bodies["metrics"])
    assert "decode_none" not in modes(tree.bodies["metrics"])
    assert modes(plain.bodies["metrics"]) == {"decode_none", "prefill_none"}


def test_every_excuse_is_needed_and_has_a_source(tree: Any, real: list[dict[str, Any]], excused: Any) -> None:
    for entry in excused["family"]:
        assert entry["source"]
        assert entry["name"] in _families(tree.bodies["metrics_aborted"])
        assert not [families for families in real if entry["name"] in families]
