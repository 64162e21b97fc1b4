"""The dialects that there are, and the one of a build."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddtune.config.errors import ConfigError
from ddtune.config.names import nearest
from ddtune.profiles.argv import flags_in, last_values
from ddtune.profiles.files import folders, read_file
from ddtune.profiles.model import Dialect

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


def parsed(name: str, text: str) -> Dialect:
    """The dialect in ``text``, on top of those that there are. Raises ConfigError with all that is wrong in it."""
    from pydantic import ValidationError

    from ddtune.config.schema import problems
    from ddtune.profiles.schema import DialectFile

    try:
        file = DialectFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"cannot use the dialect {name}: {error}") from None
    except ValidationError as error:
        raise ConfigError(f"cannot use the dialect {name}: {problems(error, DialectFile)}") from None
    known = load_dialects()
    if file.extends is not None and file.extends not in known:
        raise ConfigError(f"cannot use the dialect {name}: it extends {file.extends!r}, which there is not")
    return file.dialect(name, None if file.extends is None else known[file.extends])


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


def pick_dialect(flags: Collection[str], dialects: Mapping[str, Dialect], argv: Sequence[str] = ()) -> Dialect:
    """The dialect of a build with these flags that runs ``argv``.

    Of those that match, the one that asks for most flags, since these tell builds apart; then one that asks for the
    algorithm that runs; then the user's own before a shipped one. One that asks for nothing is never picked.
    """
    known = set(flags)
    named = last_values(argv, "--speculative-algorithm") or ("",)
    fitting = [
        dialect
        for dialect in dialects.values()
        if set(dialect.match_flags) <= known
        and (not dialect.match_algorithms or named[0].lower() in dialect.match_algorithms)
        and (dialect.match_flags or dialect.match_algorithms)
    ]
    if not fitting:
        return dialects[FALLBACK]
    most = max(map(_asks_for, fitting))
    return [dialect for dialect in fitting if _asks_for(dialect) == most][-1]


def _asks_for(dialect: Dialect) -> tuple[int, bool]:
    return len(dialect.match_flags), bool(dialect.match_algorithms)


def choose(name: str | None, flags: Collection[str], argv: Sequence[str] = ()) -> Dialect:
    """The dialect called ``name``, else the one of the build's ``flags`` (or of those that ``argv`` uses) and ``argv``.

    Raises ConfigError for a name that there is not.
    """
    dialects = load_dialects()
    if name is None:
        return pick_dialect(flags or flags_in(argv), dialects, argv)
    if name not in dialects:
        near = nearest(name, dialects)
        hint = f"; there is {', '.join(near or dialects)}"
        raise ConfigError(f"no dialect is called {name!r}{hint}")
    return dialects[name]


def of_site(site: Mapping[str, Any], flags: Collection[str], argv: Sequence[str] = ()) -> Dialect:
    """The dialect of an adopted service, by what the host keeps of its adoption.

    That is its site dialect: the user's file of its name, or, on another operator's machine, the text that the host
    keeps. A service without one has the dialect that it was adopted with. Raises ConfigError.
    """
    own = site.get("site_dialect")
    if not isinstance(own, Mapping):
        return choose(site.get("dialect"), flags, argv)
    name = str(own.get("name"))
    return load_dialects().get(name) or parsed(name, str(own.get("text") or ""))
