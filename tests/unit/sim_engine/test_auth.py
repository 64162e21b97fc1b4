"""Keys by SGLang's levels."""

from __future__ import annotations

import json

import pytest

from ddtune.sim.engine.auth import refusal
from ddtune.sim.engine.web import Request

USER = {"api_key": "user", "admin_api_key": None}
BOTH = {"api_key": "user", "admin_api_key": "boss"}
ADMIN = {"api_key": None, "admin_api_key": "boss"}
NONE = {"api_key": None, "admin_api_key": None}


@pytest.mark.parametrize(
    ("keys", "path", "key", "passes"),
    [
        (NONE, "/generate", None, True),
        (USER, "/model_info", None, False),
        (USER, "/model_info", "user", True),
        (USER, "/v1/loads", "wrong", False),
        (USER, "/ready", None, True),
        (USER, "/metrics", None, True),
        (USER, "/health_generate", None, True),
        (USER, "/flush_cache", "user", True),
        (BOTH, "/flush_cache", "user", False),
        (BOTH, "/flush_cache", "boss", True),
        (BOTH, "/model_info", "boss", False),
        (ADMIN, "/model_info", None, True),
        (ADMIN, "/abort_request", None, False),
    ],
)
def test_who_may_pass(keys: dict[str, str | None], path: str, key: str | None, passes: bool) -> None:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    refused = refusal(Request("GET", path, {}, headers, b"", "-"), keys)
    assert (refused is None) is passes
    if refused is not None:
        assert (refused.status, json.loads(refused.body)) == (401, {"error": "Unauthorized"})
