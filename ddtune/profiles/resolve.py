"""Base ⊕ profile through a dialect: what is started."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ddtune.profiles.argv import Piece, flags_in, join, pieces
from ddtune.profiles.axes import speculative_axes
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.model import (
    NO_SPECULATION,
    Axis,
    AxisValue,
    Base,
    Dialect,
    Profile,
    Release,
    Setting,
    value_key,
)
from ddtune.profiles.template import fill


@dataclass
class _Change:
    """What a profile asks of an argv and an environment.

    ``wanted`` holds a piece by its flag; ``removed`` flags as a dialect's ``drop`` writes them; ``instead`` other
    spellings of a wanted flag, whose place it takes.
    """

    wanted: dict[str, Piece] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    unset: dict[str, None] = field(default_factory=dict)


def resolve(base: Base, profile: Profile, dialect: Dialect, flags: Collection[str] | None = None) -> Release:
    """The release of ``profile`` on ``base``.

    Each axis that the profile sets replaces its own flags in their place, or goes to the end; algorithm ``none`` drops
    every speculative flag and variable that the dialect knows; all else stays, verbatim and in order. ``flags`` are
    those that the build's ``--help`` lists (none or empty: not known); they choose between spellings.

    Raises UnsupportedAxis.
    """
    change = _Change()
    idle: tuple[str, ...] = ()
    if profile.axes.get("algorithm") == NO_SPECULATION:
        change.removed.update(dict.fromkeys(dialect.spec_flags))
        change.unset.update(dict.fromkeys(dialect.spec_env))
        idle = ("algorithm", *speculative_axes(dialect))
    for name, value in profile.axes.items():
        if name in idle:
            continue
        axis = dialect.axes.get(name)
        if name == "algorithm" and (axis is None or value_key(value) not in axis.values):
            raise UnsupportedAxis(name, None, _no_such_algorithm(value_key(value), dialect))
        if axis is None:
            raise UnsupportedAxis(name, dialect.lacks.get(name))
        _apply(change, axis, value, dialect, flags or (), base.argv)
    for piece in pieces(profile.args):
        if piece.flag is not None:
            change.wanted[piece.flag] = piece
    change.env.update(profile.env)
    change.unset.update(dict.fromkeys(profile.unset))
    unset = tuple(sorted(name for name in change.unset if name not in change.env))
    return Release(_rewritten(base.argv, change), dict(sorted(change.env.items())), unset, base.cwd)


def _no_such_algorithm(asked: str, dialect: Dialect) -> str:
    known = (*(dialect.axes["algorithm"].values if "algorithm" in dialect.axes else ()), NO_SPECULATION)
    return (
        f"the profile asks for algorithm = {asked}, which the dialect {dialect.name!r} of this service does not know; "
        f"it knows {', '.join(known)}"
    )


def _apply(
    change: _Change, axis: Axis, value: AxisValue, dialect: Dialect, flags: Collection[str], argv: Sequence[str]
) -> None:
    setting = _choose(axis, value, dialect, flags, argv)
    others = [other for other in (*axis.spellings, *axis.values.values()) if other is not setting]
    for other in others:
        for piece in pieces(other.args):
            if piece.flag is not None:
                change.removed[piece.flag] = None
    try:
        filled = tuple(fill(token, value) for token in setting.args)
        env = {name: fill(text, value) for name, text in setting.env.items()}
    except ValueError as error:
        raise UnsupportedAxis(axis.name, None, f"{axis.name} cannot be written: {error}") from None
    wanted = [piece for piece in pieces(filled) if piece.flag is not None]
    for piece in wanted:
        assert piece.flag is not None
        change.wanted[piece.flag] = piece
        change.instead.update({flag: piece.flag for other in axis.spellings for flag in flags_in(other.args)})
    change.removed.update(dict.fromkeys(setting.drop))
    for other in others:
        change.unset.update(dict.fromkeys(other.env))
    change.unset.update(dict.fromkeys(setting.unset))
    change.env.update(env)


def _choose(axis: Axis, value: AxisValue, dialect: Dialect, flags: Collection[str], argv: Sequence[str]) -> Setting:
    """The setting for ``value``: its own, else the first spelling that the build knows (or that the base uses)."""
    one = axis.values.get(value_key(value))
    if one is None and not axis.spellings:
        known = ", ".join(axis.values)
        why = f"{axis.name} = {value_key(value)} is not a value of the dialect {dialect.name!r}; it knows {known}"
        raise UnsupportedAxis(axis.name, None, why)
    candidates = (one,) if one is not None else axis.spellings
    if not flags:
        used = flags_in(argv)
        return next((setting for setting in candidates if flags_in(setting.args) & used), candidates[0])
    for setting in candidates:
        if flags_in(setting.args) <= set(flags):
            return setting
    raise UnsupportedAxis(axis.name, min(flags_in(candidates[0].args) - set(flags)))


def _rewritten(argv: Sequence[str], change: _Change) -> tuple[str, ...]:
    result: list[Piece] = []
    placed: set[str] = set()
    present = {piece.flag for piece in pieces(argv)}
    for piece in pieces(argv):
        target = piece.flag if piece.flag in change.wanted else None
        if target is None and piece.flag is not None and _removes(change.removed, piece):
            # Another spelling of a wanted flag that is not there itself gives its place.
            target = change.instead.get(piece.flag)
            if target in present or target is None:
                continue
        if target is None:
            result.append(piece)
        elif target not in placed:
            placed.add(target)
            result.append(change.wanted[target])
    result.extend(piece for flag, piece in change.wanted.items() if flag not in placed)
    return join(result)


def _removes(removed: Mapping[str, None], piece: Piece) -> bool:
    return piece.flag in removed or f"{piece.flag}={' '.join(piece.values)}" in removed
