from __future__ import annotations

import json
from typing import Any

import pytest

from ddtune.engine.server_info import Loads, read_loads, read_server_info
from tests.unit.engine_samples import text


@pytest.mark.parametrize(
    ("name", "version"), [("server_info-0.5.17.json", "0.5.17"), ("server_info-0.5.23.json", "0.5.23")]
)
def test_real_answers(name: str, version: str) -> None:
    info = read_server_info(json.loads(text(name)))
    assert info is not None
    assert info.version == version


@pytest.mark.parametrize(
    "body",
    [
        {"version": "0.5.17", "model_path": "/m"},
        {"internal_states": [{"version": "0.5.17", "model_path": "/m"}]},
        {"version": "0.5.17", "internal_states": [], "model_path": "/m"},
    ],
)
def test_shapes_of_several_versions(body: dict[str, Any]) -> None:
    info = read_server_info(body)
    assert info is not None
    assert (info.version, info.model) == ("0.5.17", "/m")


def test_null_and_nonsense() -> None:
    info = read_server_info({"internal_states": [{"model_path": None}], "version": 5})
    assert info is not None
    assert (info.version, info.model) == (None, None)
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
    assert (new.running, new.queued, new.max_running) == (8, 4, 8)
    spec = read_loads(json.loads(text("loads-0.5.17.json")))
    assert spec is not None
    assert spec.running is not None
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
