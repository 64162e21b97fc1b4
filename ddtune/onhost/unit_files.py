"""The unit's own files, as systemd reads them: known again by their settings, and what somebody has changed since.

With them go the files that they read variables from. Kept are salted hashes, for any of them may hold secrets.
Comments, blank lines and the order of different settings do not count: they change nothing of a start. ddtune's own
drop-in is not among the files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from . import clock, releases, store
from .paths import UnitPaths

PROPERTIES = ("FragmentPath", "DropInPaths")
"""What :func:`keep` and :func:`changed` want to know of a unit."""
SCHEMA = 1
# By precedence, as in systemd.unit(5).
_FOLDERS = (
    "/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient",
    "/run/systemd/generator.early", "/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system",
    "/run/systemd/system.attached", "/run/systemd/generator", "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late",
)  # fmt: skip
_MOST = 1 << 20

Values = dict[str, list[str]]


@dataclass(frozen=True)
class Change:
    """A file that is ``added``, ``removed`` or ``edited``, the settings that differ, and when (seconds since the
    epoch); None where it is gone.
    """

    path: str
    what: str
    settings: tuple[str, ...]
    at: Optional[float]

    @property
    def text(self) -> str:
        """In words."""
        shown = ", ".join(f"{name}=" for name in self.settings)
        return f"{self.path} was {self.what}" + (f" ({shown})" if shown else "")

    @property
    def json(self) -> dict[str, Any]:
        """As an answer of the helper has it."""
        return {"path": self.path, "what": self.what, "settings": list(self.settings)}

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Change:
        """The same of such an answer, which does not say when."""
        return cls(str(said.get("path")), str(said.get("what")), tuple(said.get("settings") or ()), None)


def settings(text: str) -> Values:
    """The values of each ``Section.Name`` of a unit file, in their order."""
    found: Values = {}
    section = line = ""
    for part in text.splitlines():
        word = part.strip()
        # A comment may also stand between the lines of one value.
        if word.startswith(("#", ";")) or not (word or line):
            continue
        line += word
        if (len(line) - len(line.rstrip("\\"))) % 2:
            line = f"{line[:-1]} "
            continue
        name, equals, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[]")
        elif equals:
            found.setdefault(f"{section}.{name.strip()}", []).append(value.strip())
        line = ""
    return found


def _read(path: str, parse: Callable[[str], Values]) -> Values:
    """What stands in the file ``path``; nothing where it is not there or may not be read."""
    try:
        with open(path, "rb") as file:
            return parse(file.read(_MOST).decode("utf-8", "surrogateescape"))
    except OSError:
        return {}


def files(paths: UnitPaths, fragment: str, drop_ins: Sequence[str]) -> list[str]:
    """The unit file and its drop-ins in systemd's order. Where systemd has not looked yet, what it will find counts.

    ``fragment`` and ``drop_ins`` are what it has read; those in folders of other names than the unit's are taken from
    there alone.
    """
    named = {os.path.basename(path): path for path in drop_ins if not _is_own(paths, path)}
    for folder in reversed(_FOLDERS):
        own = f"{paths.root}{folder}/{paths.unit}.d"
        for name in _listed(own):
            if name.endswith(".conf") and not _same(named.get(name), f"{own}/{name}"):
                named[name] = f"{own}/{name}"
    first = next((path for folder in _FOLDERS if os.path.lexists(path := f"{paths.root}{folder}/{paths.unit}")), None)
    if first and os.path.basename(fragment) == paths.unit and not _same(fragment, first):
        fragment = first
    rest = (named[name] for name in sorted(named))
    return [path for path in (fragment, *rest) if path and path != paths.drop_in]


def keep(paths: UnitPaths, props: Mapping[str, str]) -> None:
    """Writes down the files as they are now."""
    salt, units = releases.salt(paths), _read_by_systemd(paths, props)
    now = _values(paths, units)
    found = [_fingerprint(path, values, salt) for path, values in now.items() if values]
    variables = [path for path in now if path not in units]
    said = {"schema": SCHEMA, "at": clock.wall(), "files": found, "variables": variables, "stats": _stats(now)}
    store.write_json(paths.unit_files, said)


def kept(paths: UnitPaths) -> bool:
    """Whether there is anything to compare with."""
    return bool(_known(_said(paths))) and releases.known_salt(paths) is not None


def changed(paths: UnitPaths, props: Mapping[str, str]) -> list[Change]:
    """What is not as it was kept; nothing where nothing was. Only root may read what that takes."""
    known, salt = _known(_said(paths)), releases.known_salt(paths)
    if not known or salt is None:
        return []
    return _by_settings(known, _values(paths, _read_by_systemd(paths, props)), salt)


def _by_settings(known: dict[str, Any], now: Mapping[str, Values], salt: str) -> list[Change]:
    found = []
    for path, values in now.items():
        hashed = _hashed(values, salt)
        was = known.pop(path, {}).get("settings") or {}
        names = [name for name in {**was, **hashed} if was.get(name) != hashed.get(name)]
        if names:
            found.append(_change(path, ("edited" if os.path.exists(path) else "removed") if was else "added", names))
    return found + [_change(path, "removed", was.get("settings") or {}) for path, was in known.items()]


def touched(paths: UnitPaths) -> bool:
    """Whether anything of the files may have changed since they were kept; their content is not looked at."""
    said = _said(paths)
    return bool(said) and _stats(_expected(paths, said)) != said.get("stats")


class Look:
    """What has changed, looked at again and again by any login; files are read only when they were touched.

    Who may not read the salt is told of files that are open to everybody alone, and without the names of settings.
    """

    def __init__(self, paths: UnitPaths) -> None:
        self._paths = paths
        self._seen: object = None
        self._found: list[Change] = []

    def changed(self) -> list[Change]:
        """As :func:`changed`."""
        said = _said(self._paths)
        seen = _stats([*_expected(self._paths, said), self._paths.unit_files])
        if seen != self._seen:
            known = _known(said)
            salt = releases.known_salt(self._paths) if known else None
            now = _values(self._paths, _units(self._paths, said))
            found = _by_public(known, now) if salt is None else _by_settings(known, now, salt)
            self._seen, self._found = seen, list(found)
        return self._found


def _by_public(known: dict[str, Any], now: Mapping[str, Values]) -> Iterator[Change]:
    for path, values in now.items():
        was, public = known.pop(path, None), _public(path, values)
        if was is None and public is not None and values:
            yield _change(path, "added", ())
        elif was is not None and not os.path.exists(path):
            yield _change(path, "removed", ())
        elif was is not None and was.get("public") and public and public != was["public"]:
            yield _change(path, "edited", ())
    yield from (_change(path, "removed", ()) for path in known)


def _read_by_systemd(paths: UnitPaths, props: Mapping[str, str]) -> list[str]:
    return files(paths, props.get("FragmentPath", ""), props.get("DropInPaths", "").split())


def _values(paths: UnitPaths, units: Sequence[str]) -> dict[str, Values]:
    """What stands in every file that counts: in ``units``, and behind them in those that they read variables from."""
    # Imported here, since every start of the service waits for this module and seldom needs it.
    from . import unit_environment

    found = {path: _read(path, settings) for path in units}
    more = [path for path in unit_environment.files(paths.unit, found.values()) if path not in found]
    return {**found, **{path: _read(path, unit_environment.variables) for path in more}}


def _units(paths: UnitPaths, said: Mapping[str, Any]) -> list[str]:
    """The unit file and its drop-ins as they are now, where those were that ``said`` tells of."""
    variables = said.get("variables") or ()
    known = [str(one["path"]) for one in said.get("files") or () if one["path"] not in variables]
    return files(paths, known[0], [path for path in known[1:] if os.path.lexists(path)]) if known else []


def _expected(paths: UnitPaths, said: Mapping[str, Any]) -> list[str]:
    """The files that count, without a look into them: none is among them that no other of them names."""
    return [*_units(paths, said), *(said.get("variables") or ())]


def _said(paths: UnitPaths) -> dict[str, Any]:
    """What was kept; empty where nothing was, or by another version."""
    said = store.read_json(paths.unit_files) or {}
    files = said.get("files")
    fits = said.get("schema") == SCHEMA and isinstance(files, list)
    return said if fits and all(isinstance(one, dict) and "path" in one for one in files or ()) else {}


def _known(said: Mapping[str, Any]) -> dict[str, Any]:
    """What was kept of each file, by its path."""
    return {str(one["path"]): one for one in said.get("files") or ()}


def _fingerprint(path: str, values: Values, salt: str) -> dict[str, Any]:
    return {"path": path, "settings": _hashed(values, salt), "public": _public(path, values)}


def _hashed(values: Values, salt: str) -> dict[str, str]:
    return {name: _hash(salt, name, value) for name, value in values.items()}


def _hash(salt: str, name: str, values: Sequence[str]) -> str:
    return hashlib.sha256("\0".join((salt, name, *values)).encode("utf-8", "surrogateescape")).hexdigest()


def _public(path: str, values: Values) -> Optional[str]:
    """A hash of what everybody may read of ``path`` anyway, without keys; None where not everybody may read it."""
    if not _open_to_all(path):
        return None
    # Imported here, since every start of the service waits for this module and needs none of it.
    from .redact import redact_text

    lines = (redact_text(f"{name}={value}") for name, found in sorted(values.items()) for value in found)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _open_to_all(path: str) -> bool:
    path = os.path.realpath(path)
    try:
        if not os.stat(path).st_mode & 0o004:
            return False
        while path != "/":
            path = os.path.dirname(path)
            if not os.stat(path).st_mode & 0o001:
                return False
    except OSError:
        return False
    return True


def _change(path: str, what: str, names: Iterable[str]) -> Change:
    shown = tuple(sorted({name.rpartition(".")[2] for name in names}))
    try:
        # The time of a change that no copy brings along.
        at: Optional[float] = os.stat(path).st_ctime
    except OSError:
        at = None
    return Change(path, what, shown, at)


def _is_own(paths: UnitPaths, path: str) -> bool:
    """Whether ``path`` would be found by looking into the unit's own folders."""
    return any(os.path.dirname(path) == f"{paths.root}{folder}/{paths.unit}.d" for folder in _FOLDERS)


def _same(one: Optional[str], other: str) -> bool:
    try:
        return one is not None and os.path.samefile(one, other)
    except OSError:
        return False


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _stats(paths: Iterable[str]) -> list[list[Any]]:
    """By which a file that was touched is known: the time of its last change, and its size."""
    return [[path, *_stat(path)] for path in paths]


def _stat(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, -1
    return status.st_ctime_ns, status.st_size
