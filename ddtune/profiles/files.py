"""Where profiles, dialects and the envelope lie, and how one of their files is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ddtune.config.errors import ConfigError
from ddtune.config.load import read_toml
from ddtune.config.paths import config_dir

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)


def shipped_dir() -> Path:
    """The files that come with ddtune: beside this module when installed, at the root of a checkout."""
    installed = Path(__file__).parent / "shipped"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "profiles"


def folders(kind: str) -> list[Path]:
    """The folders of ``profiles`` or ``dialects``: the shipped one, then the user's own, whose files win."""
    shipped = shipped_dir() if kind == "profiles" else shipped_dir() / kind
    return [shipped, config_dir() / kind]


def read_file(path: Path, model: type[M]) -> M:
    """One TOML file as ``model``. Raises ConfigError with all that is wrong in it."""
    from pydantic import ValidationError

    from ddtune.config.schema import problems

    try:
        return model.model_validate(read_toml(path))
    except ValidationError as error:
        raise ConfigError(f"cannot use {path}: {problems(error, model)}") from None
