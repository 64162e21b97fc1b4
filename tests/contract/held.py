"""What ddtune's readers must make of an engine's answers, whichever engine it is: recorded, simulated or running."""

from __future__ import annotations

import json

from ddtune.engine import metrics, server_info
from ddtune.onhost import load


def first_object(text: str) -> object:
    """The first JSON value of a body, which some samples have more lines behind."""
    return json.JSONDecoder().raw_decode(text.lstrip())[0]


def loads(text: str) -> None:
    """Of ``/v1/loads``."""
    read = server_info.read_loads(first_object(text))
    assert read is not None
    assert read.running is not None
    assert read.running >= 0
    assert read.queued is not None
    assert read.max_running
    assert read.kv_usage is not None
    assert 0 <= read.kv_usage <= 1


def scrape(text: str, speculates: bool) -> None:
    """Of ``/metrics``, once something was generated."""
    read = metrics.reading(None, metrics.parse(text, 100.0))
    assert read.running is not None
    assert read.queued is not None
    assert read.kv_usage is not None
    assert read.requests_total is not None
    if speculates:
        assert read.accept_length is not None
        assert read.accept_length >= 1
    else:
        assert read.accept_length is None, "it does not speculate"


def info(text: str) -> None:
    """Of ``/server_info``."""
    read = server_info.read_server_info(first_object(text))
    assert read is not None
    assert read.version is not None
    assert read.version.startswith("0.5.")
    assert read.model


def completion(text: str, speculates: bool) -> None:
    """Of ``/generate``."""
    read = load.read_answer(200, json.dumps(first_object(text)).encode())
    assert "error" not in read
    assert read["text"]
    assert len(read["token_ids"]) == read["completion_tokens"] > 0
    assert read["finish_reason"] in ("stop", "length")
    assert (read["verify_calls"] is not None) == speculates


def chat(text: str) -> None:
    """Of ``/v1/chat/completions``."""
    read = load.read_answer(200, json.dumps(first_object(text)).encode())
    assert "error" not in read
    assert read["text"]
    assert read["completion_tokens"] > 0


def refusal(text: str) -> None:
    """Of a request that cannot be served."""
    read = load.read_answer(400, json.dumps(first_object(text)).encode())
    assert read["error_kind"] == "http"
    assert read["error"] not in ("HTTP 400: no message", "HTTP 400: ")
