"""Which key a path needs, by SGLang's levels."""

from __future__ import annotations

from typing import Any

from ddtune.sim.engine.web import Request, Response

_OPEN = ("/health", "/ready", "/metrics")
_ADMIN_OPTIONAL = frozenset(
    {
        "/flush_cache", "/abort_request", "/pause_generation", "/continue_generation", "/set_internal_state",
        "/release_memory_occupation", "/resume_memory_occupation", "/start_profile", "/stop_profile",
        "/configure_logging", "/freeze_gc",
    }
)  # fmt: skip


def refusal(request: Request, args: dict[str, Any]) -> Response | None:
    """The 401 that ``request`` gets under the keys in ``args``; None when it may pass."""
    if request.path.startswith(_OPEN) or request.method == "OPTIONS":
        return None
    key, admin = args["api_key"], args["admin_api_key"]
    needed = (admin or key) if request.path in _ADMIN_OPTIONAL else key
    if not needed or request.headers.get("authorization") == f"Bearer {needed}":
        return None
    return Response.of_json({"error": "Unauthorized"}, 401)
