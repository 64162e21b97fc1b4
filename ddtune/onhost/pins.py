"""Which port and which key file root uses for a service: the engine's own, kept at adoption.

Whoever may call the helper must not be able to have root read another file, or send a key to another program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from . import store
from .api import flag_value
from .build_probe import program_length
from .context import Host, RefusalError
from .paths import UnitPaths

DEFAULT_PORT = 30000


def of_argv(argv: Sequence[str]) -> Optional[int]:
    """The port that an engine's command line names or leaves at its default; None where a file may name it."""
    value = flag_value(argv, "--port")
    if value is not None:
        return int(value) if value.isdecimal() else None
    return None if flag_value(argv, "--config") or program_length(argv) is None else DEFAULT_PORT


def checked(unit: str, argv: Sequence[str], asked: Optional[int]) -> int:
    """The port of the engine that runs ``argv``. Raises ``RefusalError`` when ``asked`` is another one."""
    own = of_argv(argv)
    if own is not None and asked not in (None, own):
        raise RefusalError(
            "unknown", f"{unit} listens on port {own}, not on {asked}: set api_port = {own} for this host"
        )
    return own or asked or DEFAULT_PORT


def api_of(host: Host, unit: str, asked: Optional[int], key_file: Optional[str]) -> tuple[int, Optional[str]]:
    """Port and key file of ``unit``: those of its adoption, whatever was asked for; before it the engine's own port."""
    site = store.read_json(host.paths.unit(unit).site)
    if site is not None:
        return pinned(host.paths.unit(unit), asked, key_file)
    process = host.running(unit)
    if process is None:
        raise RefusalError("unknown", f"{unit} is not running, so nothing is sent to its port")
    return checked(unit, process.argv, asked), key_file


def pinned(paths: UnitPaths, asked: Optional[int], key_file: Optional[str]) -> tuple[int, Optional[str]]:
    """Port and key file as kept at the adoption of ``paths``' unit; what was asked for where it kept none."""
    site = store.read_json(paths.site) or {}
    if "api_port" not in site:
        return asked or DEFAULT_PORT, key_file
    return int(site["api_port"]), site.get("api_key_file")
