"""Read the configuration file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddtune.config.errors import ConfigError
from ddtune.config.model import HostConfig, ScreenConfig
from ddtune.config.paths import config_file

if TYPE_CHECKING:
    from ddtune.config.schema import ConfigFile


def read_toml(path: Path) -> dict[str, Any]:
    """One TOML file. Raises ConfigError naming the file and the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def load_config(path: Path | None = None) -> dict[str, HostConfig]:
    """The hosts by name; none when there is no file at the usual place.

    Raises ConfigError with everything that is wrong in one message. A file that was named (``path`` or
    ``$DDTUNE_CONFIG``) must exist.
    """
    file = _read(path)
    return {name: host.host(name) for name, host in file.hosts.items()} if file else {}


def load_screen(path: Path | None = None) -> ScreenConfig:
    """How the dashboard is shown. Raises ConfigError as above."""
    file = _read(path)
    return ScreenConfig(file.theme, dict(file.keys)) if file else ScreenConfig()


def _read(path: Path | None) -> ConfigFile | None:
    import os

    named = path is not None or bool(os.environ.get("DDTUNE_CONFIG"))
    place = path or config_file()
    if not named and not place.exists():
        return None
    data = read_toml(place)

    from pydantic import ValidationError

    from ddtune.config.schema import ConfigFile, problems

    try:
        return ConfigFile.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"cannot use {place}: {problems(error, ConfigFile)}") from None
