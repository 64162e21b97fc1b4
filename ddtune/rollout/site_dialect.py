"""The dialect of one service: drafted at its adoption, the user's to edit, and kept on the host for other operators."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddtune.config.errors import ConfigError
from ddtune.config.paths import config_dir
from ddtune.profiles import dialects
from ddtune.profiles.model import NO_SPECULATION, AxisValue, Dialect, Remark
from ddtune.profiles.site import draft_dialect, recheck


@dataclass(frozen=True)
class SiteDialect:
    """``text`` is that of the file ``name``.toml; ``kept`` when the file was there before, whoever wrote it."""

    name: str
    text: str
    dialect: Dialect
    kept: bool

    @property
    def on_host(self) -> dict[str, str]:
        """What the host keeps of it in site.json."""
        return {"name": self.name, "text": self.text}


def path_of(name: str) -> Path:
    """Where the user's file of that name lies."""
    return config_dir() / "dialects" / f"{name}.toml"


def name_for(host: str, unit: str) -> str:
    """The name of the dialect of ``unit`` on ``host``, as a file name."""
    words = (host, unit.removesuffix(".service"))
    return "-".join(["site", *(re.sub(r"[^A-Za-z0-9_.]+", "-", word).strip("-.") for word in words)])[:120]


def drafted(
    host: str,
    unit: str,
    argv: Sequence[str],
    env: Mapping[str, str | None],
    flags: Collection[str],
    build: str,
    parent: Dialect,
) -> SiteDialect:
    """The user's own file for this service where there is one, else a draft on top of ``parent``.

    Raises ConfigError for a file that cannot be used.
    """
    name = name_for(host, unit)
    mine = dialects.load_dialects().get(name)
    if mine is not None:
        return SiteDialect(name, _read(path_of(name)), mine, kept=True)
    text = draft_dialect(argv, env, flags, build, parent)
    return SiteDialect(name, text, dialects.parsed(name, text), kept=False)


def of_host(site: Mapping[str, Any]) -> tuple[str, str] | None:
    """Name and text of the site dialect that the host keeps, or None."""
    own = site.get("site_dialect")
    if not isinstance(own, Mapping) or not isinstance(own.get("name"), str) or not isinstance(own.get("text"), str):
        return None
    # The host's word becomes a file name here.
    return (own["name"], own["text"]) if re.fullmatch(r"site-[A-Za-z0-9_.-]{1,120}", own["name"]) else None


def write(name: str, text: str) -> str | None:
    """Put the file where the user can edit it; one that is there stays. A sentence where it cannot be written."""
    path = path_of(name)
    if path.exists():
        return None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return f"the dialect of this service could not be written to {path}: {error.strerror}; the host keeps it"
    with open(opened, "w", encoding="utf-8") as file:
        file.write(text)
    return None


def kept_as_it_is(own: SiteDialect, axes: Mapping[str, AxisValue]) -> str:
    """What an adoption says of a file that was there before; ``axes`` are what runs, as it reads them."""
    path, algorithm = path_of(own.name), axes.get("algorithm", NO_SPECULATION)
    known = own.dialect.axes["algorithm"].values if "algorithm" in own.dialect.axes else {}
    if algorithm == NO_SPECULATION or algorithm in known:
        return f"{path} was there before and is used as it is"
    return f"{path} was there before and does not know {algorithm}, which runs: remove it, unadopt and adopt again"


def remarks(site: Mapping[str, Any], dialect: Dialect, build: str, flags: Collection[str]) -> list[Remark]:
    """What an engine that was changed since the adoption means for the dialect of an adopted service."""
    before = site.get("build_before") or site.get("build")
    return recheck(dialect, build, flags, str(before) if before else None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
