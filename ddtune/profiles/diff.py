"""Every flag and variable in which two releases differ."""

from __future__ import annotations

import shlex

from ddtune.onhost.redact import is_secret
from ddtune.profiles.argv import pieces
from ddtune.profiles.model import Release


def diff(before: Release, after: Release) -> list[str]:
    """Lines for people, in the order of the flags; empty when both start the same. Keys and the like are not shown."""
    old, new = _flags(before), _flags(after)
    lines = [
        f"{flag or 'program'}: {_shown(flag, old.get(flag))} → {_shown(flag, new.get(flag))}"
        for flag in dict.fromkeys([*old, *new])
        if old.get(flag) != new.get(flag)
    ]
    if not lines and before.argv != after.argv:
        lines.append("the same flags, written in another way or order")
    names = dict.fromkeys([*before.env_set, *before.env_unset, *after.env_set, *after.env_unset])
    for name in sorted(names):
        was, now = _env(before, name), _env(after, name)
        if was != now:
            lines.append(f"env {name}: {_hidden(name, was)} → {_hidden(name, now)}")
    if before.cwd != after.cwd:
        lines.append(f"working folder: {before.cwd} → {after.cwd}")
    return lines


def _flags(release: Release) -> dict[str | None, list[tuple[str, ...]]]:
    found: dict[str | None, list[tuple[str, ...]]] = {}
    for piece in pieces(release.argv):
        found.setdefault(piece.flag, []).append(piece.values)
    return found


def _shown(flag: str | None, values: list[tuple[str, ...]] | None) -> str:
    if values is None:
        return "absent"
    if flag and is_secret(flag):
        return "…"
    return ", ".join(shlex.join(each) if each else "set" for each in values)


def _env(release: Release, name: str) -> str | None:
    if name in release.env_set:
        return shlex.quote(release.env_set[name])
    return "unset" if name in release.env_unset else None


def _hidden(name: str, text: str | None) -> str:
    if text is None:
        return "as the unit has it"
    return "…" if text != "unset" and is_secret(name) else text
