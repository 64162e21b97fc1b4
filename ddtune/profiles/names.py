"""Names of profiles that a user may have meant."""

from __future__ import annotations

from ddtune.config.names import nearest

__all__ = ["nearest"]
