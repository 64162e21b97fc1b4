"""What goes wrong with a configuration."""

from __future__ import annotations


class ConfigError(Exception):
    """A sentence for the user: what is wrong, where, and what to do."""
