"""Unit files as systemd reads them: sections, drop-ins, specifiers, quoting, time spans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "s": " ", "\\": "\\", '"': '"', "'": "'", "a": "\a", "b": "\b"}
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "": 1, "m": 60, "min": 60, "h": 3600, "hr": 3600, "d": 86400}
_SPAN = re.compile(r"([0-9.]+)\s*([a-z]*)")


@dataclass(frozen=True)
class Command:
    """One Exec line; ``ignore`` says that its failure counts as success."""

    argv: tuple[str, ...]
    ignore: bool = False


@dataclass(frozen=True)
class Config:
    """What a unit's files said when they were last read. Times in seconds, ``None`` where there is no limit."""

    name: str
    description: str = ""
    fragment: Path | None = None
    drop_ins: tuple[Path, ...] = ()
    stamps: tuple[float, ...] = ()
    kind: str = "simple"
    start_pre: tuple[Command, ...] = ()
    start: tuple[Command, ...] = ()
    stop_post: tuple[Command, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    user: str = ""
    group: str = ""
    restart: str = "no"
    restart_s: float = 0.1
    kill_mode: str = "control-group"
    start_timeout_s: float | None = 90.0
    stop_timeout_s: float | None = 90.0
    on_failure: tuple[str, ...] = ()
    burst: int = 5
    interval_s: float = 10.0
    wanted: bool = False
    transient: bool = False
    collect: bool = False


def span(text: str) -> float | None:
    """Seconds of a time span such as ``1min 30s``; ``None`` for ``infinity``. Raises ValueError."""
    if text.strip() == "infinity":
        return None
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip():
        raise ValueError(text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def format_span(seconds: float | None) -> str:
    """A time span as ``systemctl show`` prints it."""
    if seconds is None:
        return "infinity"
    left, parts = round(seconds * 1e6), []
    for unit, size in (("d", 86400_000_000), ("h", 3600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts) or "0"


def words(text: str) -> list[str]:
    """Splits a value as systemd does: blanks part words, either quote groups, backslash escapes in both."""
    found: list[str] = []
    word: str | None = None
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            following = text[at + 1]
            if following == "x":
                char, at = chr(int(text[at + 2 : at + 4], 16)), at + 2
            else:
                char = _ESCAPES.get(following, "\\" + following)
            word, at = (word or "") + char, at + 2
            continue
        if quote:
            word, quote = (word, "") if char == quote else ((word or "") + char, quote)
        elif char in "'\"":
            word, quote = word or "", char
        elif char.isspace():
            if word is not None:
                found.append(word)
            word = None
        else:
            word = (word or "") + char
        at += 1
    return found if word is None else [*found, word]


def specifiers(text: str, name: str) -> str:
    """``text`` with %n, %N, %p, %i, %I and %% filled in for the unit ``name``."""
    stem = name.rpartition(".")[0]
    prefix, _, instance = stem.partition("@")
    values = {"n": name, "N": stem, "p": prefix, "i": instance, "I": instance, "%": "%"}
    return re.sub(r"%(.)", lambda match: values.get(match[1], match[0]), text)


def expand(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """``argv`` with ``${NAME}`` filled in, a word ``$NAME`` split, and ``$$`` made ``$``."""
    out: list[str] = []
    for word in argv:
        if re.fullmatch(r"\$[A-Za-z_]\w*", word):
            out += env.get(word[1:], "").split()
        else:
            out.append(re.sub(r"\$\$|\$\{(\w+)\}", lambda match: env.get(match[1], "") if match[1] else "$", word))
    return out


def assignments(text: str) -> Iterator[tuple[str, str, str]]:
    """``(section, key, value)`` of each line, continued lines joined."""
    section, held = "", ""
    for raw in text.splitlines():
        line = raw.strip()
        if held:
            line, held = held + " " + line, ""
        elif not line or line[0] in "#;":
            continue
        if line.endswith("\\"):
            held = line[:-1].rstrip()
        elif line.startswith("["):
            section = line.strip("[]")
        elif "=" in line:
            key, _, value = line.partition("=")
            yield section, key.strip(), value.strip()


def _command(value: str, name: str) -> Command:
    program = value.lstrip("-+:!@|")
    flags = value[: len(value) - len(program)]
    argv = words(program)
    return Command(tuple(specifiers(word, name) for word in argv), "-" in flags)


_COMMANDS = {"ExecStartPre": "start_pre", "ExecStart": "start", "ExecStopPost": "stop_post"}
_TEXTS = {
    "Description": "description",
    "Type": "kind",
    "WorkingDirectory": "cwd",
    "User": "user",
    "Group": "group",
    "Restart": "restart",
    "KillMode": "kill_mode",
}
_SPANS = {
    "RestartSec": "restart_s",
    "TimeoutStartSec": "start_timeout_s",
    "TimeoutStopSec": "stop_timeout_s",
    "StartLimitIntervalSec": "interval_s",
}
INERT = frozenset({"OOMScoreAdjust", "After", "Wants", "LimitNOFILE", "LimitMEMLOCK", "Documentation", "Slice"})


def _with(config: Config, field: str, value: Any) -> Config:
    return replace(config, **{field: value})


def assign(config: Config, key: str, value: str) -> Config:
    """``config`` after one assignment. Raises KeyError for a key that this reader does not know."""
    name = config.name
    if key in _COMMANDS:
        field = _COMMANDS[key]
        before = getattr(config, field)
        return _with(config, field, (*before, _command(value, name)) if value else ())
    if key in _TEXTS:
        return _with(config, _TEXTS[key], specifiers(value, name))
    if key in _SPANS:
        return _with(config, _SPANS[key], span(value))
    if key == "Environment":
        pairs = [specifiers(word, name).partition("=")[::2] for word in words(value)]
        return replace(config, environment=tuple({**dict(config.environment), **dict(pairs)}.items()) if value else ())
    if key == "OnFailure":
        units = (*config.on_failure, *specifiers(value, name).split()) if value else ()
        return replace(config, on_failure=units)
    if key == "StartLimitBurst":
        return replace(config, burst=int(value))
    if key == "WantedBy":
        return replace(config, wanted=bool(value))
    if key in INERT:
        return config
    raise KeyError(key)


def read(name: str, folders: Iterable[Path]) -> Config | None:
    """The unit from the first of ``folders`` that has it, with the drop-ins of all of them; ``None`` where none has it.

    An instance takes its template's file. A line that cannot be read is passed over, as systemd does.
    """
    folders = list(folders)
    template = re.sub(r"@.*\.", "@.", name)
    names = [name] if template == name else [name, template]
    fragment = next((folder / one for one in names for folder in folders if (folder / one).is_file()), None)
    if fragment is None:
        return None
    drop_ins = find_drop_ins(names, folders)
    config = Config(name=name, fragment=fragment, drop_ins=drop_ins, stamps=stamps((fragment, *drop_ins)))
    for path in (fragment, *drop_ins):
        for _, key, value in assignments(path.read_text("utf-8", "replace")):
            try:
                config = assign(config, key, value)
            except (KeyError, ValueError):
                continue
    return config


def find_drop_ins(names: Iterable[str], folders: Iterable[Path]) -> tuple[Path, ...]:
    """Drop-ins in the order in which they apply: by file name; of two with one name, the earlier folder's."""
    found: dict[str, Path] = {}
    folders = list(folders)
    for name in names:
        for folder in folders:
            for path in sorted((folder / f"{name}.d").glob("*.conf")):
                found.setdefault(path.name, path)
    return tuple(found[key] for key in sorted(found))


def stamps(paths: Iterable[Path]) -> tuple[float, ...]:
    """Modification times, 0 where a file has gone."""
    return tuple(path.stat().st_mtime if path.exists() else 0.0 for path in paths)
