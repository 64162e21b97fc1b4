"""The dialects that there are, and the one of a build."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ddtune.config.errors import ConfigError
from ddtune.profiles.argv import pieces
from ddtune.profiles.files import folders, read_file
from ddtune.profiles.model import Dialect
from ddtune.profiles.names import nearest

if TYPE_CHECKING:
    from ddtune.profiles.schema import DialectFile

FALLBACK = "none"
"""The dialect of builds that have nothing special."""


def load_dialects() -> dict[str, Dialect]:
    """All dialects by name, the user's own last. Raises ConfigError that names what cannot be used."""
    from ddtune.profiles.schema import DialectFile

    files: dict[str, tuple[Path, DialectFile]] = {}
    for folder in folders("dialects"):
        for path in sorted(folder.glob("*.toml")):
            files.pop(path.stem, None)
            files[path.stem] = (path, read_file(path, DialectFile))
    done: dict[str, Dialect] = {}
    for name in files:
        _build(name, files, done, ())
    return {name: done[name] for name in files}


def _build(
    name: str, files: Mapping[str, tuple[Path, DialectFile]], done: dict[str, Dialect], above: tuple[str, ...]
) -> Dialect:
    if name in done:
        return done[name]
    path, file = files[name]
    parent = file.extends
    if parent is not None and (parent not in files or parent in (name, *above)):
        why = "extends itself" if parent in files else f"extends {parent!r}, which there is not"
        raise ConfigError(f"cannot use {path}: it {why}")
    done[name] = file.dialect(name, None if parent is None else _build(parent, files, done, (*above, name)))
    return done[name]


def pick_dialect(flags: Collection[str], dialects: Mapping[str, Dialect]) -> Dialect:
    """The dialect of a build with these flags: of those that match the one that asks for most, the user's own before
    a shipped one."""
    known = set(flags)
    fitting = [dialect for dialect in dialects.values() if set(dialect.match_flags) <= known and dialect.match_flags]
    if not fitting:
        return dialects[FALLBACK]
    most = max(len(dialect.match_flags) for dialect in fitting)
    return [dialect for dialect in fitting if len(dialect.match_flags) == most][-1]


def choose(name: str | None, flags: Collection[str], argv: Sequence[str] = ()) -> Dialect:
    """The dialect called ``name``, else the one of the build's ``flags``, else that of the flags that ``argv`` uses.

    Raises ConfigError for a name that there is not.
    """
    dialects = load_dialects()
    if name is None:
        return pick_dialect(flags or {piece.flag for piece in pieces(argv) if piece.flag}, dialects)
    if name not in dialects:
        near = nearest(name, dialects)
        hint = f"; there is {', '.join(near or dialects)}"
        raise ConfigError(f"no dialect is called {name!r}{hint}")
    return dialects[name]
