from __future__ import annotations

import json
from typing import Any

import pytest

from ddtune.engine.server_info import Loads, read_loads, read_server_info
from tests.unit.engine_samples import text


def test_real_answers() -> None:
    old = read_server_info(json.loads(text("server_info-0.5.17.json")))
    assert old is not None
    assert (old.version, old.algorithm, old.num_draft_tokens, old.page_size) == ("0.5.17", "NGRAM", 16, 1)
    assert old.max_running == 48
    assert old.accept_length_since_boot == pytest.approx(2.168, abs=0.001)
    new = read_server_info(json.loads(text("server_info-0.5.23.json")))
    assert new is not None
    assert (new.version, new.algorithm, new.accept_length_since_boot, new.graph_batch_sizes) == (
        "0.5.23",
        None,
        None,
        (),
    )


@pytest.mark.parametrize(
    "body",
    [
        {"speculative_algorithm": "DDTREE", "avg_spec_accept_length": 4.5},
        {"internal_states": [{"speculative_algorithm": "DDTREE", "avg_spec_accept_length": 4.5}]},
        {"speculative_algorithm": "DDTREE", "internal_states": [], "avg_spec_accept_length": 4.5},
    ],
)
def test_shapes_of_several_versions(body: dict[str, Any]) -> None:
    info = read_server_info(body)
    assert info is not None
    assert (info.algorithm, info.accept_length_since_boot) == ("DDTREE", 4.5)


def test_null_and_nonsense() -> None:
    info = read_server_info({"internal_states": [{"avg_spec_accept_length": None}], "page_size": "x"})
    assert info is not None
    assert (info.accept_length_since_boot, info.page_size) == (None, None)
    assert read_server_info([]) is None
    assert read_loads({"loads": []}) is None
    assert read_loads("loads") is None
    assert read_loads({"loads": [{"num_running_reqs": None}]}) == Loads()


def test_a_key_is_not_kept() -> None:
    info = read_server_info(
        {"api_key": "sk-secret", "admin_api_key": "sk-secret", "internal_states": [{"api_key": "sk-secret"}]}
    )
    assert "secret" not in repr(info)


def test_loads() -> None:
    new = read_loads(json.loads(text("loads-0.5.23.json")))
    assert new is not None
    assert (new.running, new.queued, new.max_running, new.accept_length) == (8, 4, 8, None)
    spec = read_loads(json.loads(text("loads-0.5.17.json")))
    assert spec is not None
    assert spec.accept_length == pytest.approx(7.308, abs=0.001)
    assert spec.timestamp == pytest.approx(1795973390.8, abs=0.1)
    old = read_loads(json.loads(text("get_load-0.5.17.json")))
    assert old is not None
    assert (old.running, old.queued, old.max_running) == (16, 0, None)


def test_ranks_are_summed() -> None:
    ranks = [
        {"num_running_reqs": 3, "token_usage": 0.1, "cache_hit_rate": 0.2},
        {"num_running_reqs": 4, "token_usage": 0.3},
    ]
    loads = read_loads({"loads": ranks})
    assert loads == Loads(running=7, kv_usage=0.3, cache_hit=0.2)
