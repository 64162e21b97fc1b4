"""Every key of the simulated engine's JSON is a key of a real answer, with the same type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

# The samples that a body is held against; several where one server shows what another had no cause to.
AGAINST = {
    "generate": ["0.5.23/generate.body", "0.5.17-h200/ngram16_g_gen.json"],
    "generate_stream": [
        "0.5.23/generate_stream.body",
        "0.5.23/generate_logprob.body",
        "0.5.23/generate.body",
        "0.5.17-h200/ngram16_g_gen.json",
    ],
    "generate_logprob": ["0.5.23/generate_logprob.body"],
    "completions": ["0.5.23/completions.body"],
    "chat": ["0.5.23/chat.body"],
    "chat_stream": ["0.5.23/chat_stream.body"],
    "bad_request": ["0.5.23/bad_request.body"],
    "too_long": ["0.5.23/too_long.body"],
    "server_info": ["0.5.23/server_info.body", "0.5.17-h200/ngram16_g_idle_get_server_info.json"],
    "model_info": ["0.5.23/model_info.body"],
    "v1_loads": ["0.5.23/v1_loads_under_load.body", "0.5.17-h200/ngram16_g_loads_c16.json"],
    "v1_models": ["0.5.23/v1_models.body"],
}
COMPLETE = ("generate", "v1_loads", "v1_models", "completions", "chat")
Types = dict[str, set[str]]


def _types(value: Any, path: str = "", into: Types | None = None) -> Types:
    """The JSON types seen at each path; elements of a list share one."""
    into = {} if into is None else into
    kind = {dict: "object", list: "list", bool: "bool", int: "number", float: "number", str: "string"}
    into.setdefault(path, set()).add("null" if value is None else kind[type(value)])
    if isinstance(value, dict):
        for key, inner in value.items():
            _types(inner, f"{path}.{key}" if path else key, into)
    elif isinstance(value, list):
        for inner in value:
            _types(inner, f"{path}[]", into)
    return into


def _of(text: str) -> Types:
    """The types of a JSON body or of all events of a stream."""
    found: Types = {}
    if text.startswith("data: "):
        for line in text.splitlines():
            if line.startswith("data: {"):
                _types(json.loads(line[6:]), into=found)
    else:
        _types(json.loads(text.splitlines()[0]), into=found)
    return found


def _real(names: list[str], sample: Callable[[str], str]) -> Types:
    merged: Types = {}
    for name in names:
        for path, kinds in _of(sample(name)).items():
            merged.setdefault(path, set()).update(kinds)
    return merged


@pytest.mark.parametrize("name", sorted(AGAINST))
@pytest.mark.parametrize("engine", ["tree", "plain"])
def test_every_key_is_a_real_one_of_its_type(
    name: str, engine: str, request: pytest.FixtureRequest, sample: Callable[[str], str], excused: Any
) -> None:
    body = request.getfixturevalue(engine).bodies[name]
    if name == "generate_logprob" and engine == "tree":
        assert "return_logprob" in json.loads(body)["error"]["message"]
        return
    real = _real(AGAINST[name], sample)
    known = {entry["path"] for entry in excused["key"] if entry["body"] == name}
    for path, kinds in _of(body).items():
        if path in known:
            continue
        assert path in real, f"{name}: no real server answered {path}"
        assert kinds - {"null"} <= real[path] or real[path] == {"null"}, f"{name}: {path} is {kinds}, not {real[path]}"


@pytest.mark.parametrize("name", COMPLETE)
def test_nothing_that_the_newest_server_answers_is_missing(name: str, tree: Any, sample: Callable[[str], str]) -> None:
    assert not set(_of(sample(AGAINST[name][0]))) - set(_of(tree.bodies[name]))


def test_speculation_adds_the_fields_that_it_adds_in_a_real_answer(tree: Any, sample: Callable[[str], str]) -> None:
    real = {path for path in _of(sample("0.5.17-h200/ngram16_g_gen.json")) if ".spec_" in path}
    renamed = {"spec_accepted_drafts", "spec_proposed_drafts", "spec_accept_histogram"}
    wanted = {path for path in real if path.split(".")[-1].removesuffix("[]") not in renamed}
    assert wanted <= set(_of(tree.bodies["generate"]))


def test_every_argument_of_server_info_is_there(tree: Any, sample: Callable[[str], str]) -> None:
    assert not set(json.loads(sample("0.5.23/server_info.body"))) - set(json.loads(tree.bodies["server_info"]))


def test_bodies_without_json_are_the_same(tree: Any, sample: Callable[[str], str]) -> None:
    assert tree.bodies["health"] == ""
    assert tree.bodies["flush_cache"] == sample("0.5.23/flush_cache.body")


def test_every_excuse_is_needed_and_has_a_source(tree: Any, sample: Callable[[str], str], excused: Any) -> None:
    for entry in excused["key"]:
        assert entry["source"]
        assert entry["path"] in _of(tree.bodies[entry["body"]]), entry
        assert entry["path"] not in _real(AGAINST[entry["body"]], sample), entry
