"""A site dialect: drafted from what runs and the build's ``--help``, and looked at again when the build changes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ddtune.profiles import toml_text
from ddtune.profiles.argv import Piece, flags_in, last_values, pieces
from ddtune.profiles.axes import axes_of
from ddtune.profiles.model import NO_SPECULATION, Dialect, Remark, Setting, settings_of

_SPECULATIVE = "--spec"
_SHOWN = 6


def draft_dialect(
    argv: Sequence[str], env: Mapping[str, str | None], flags: Collection[str], build: str, parent: Dialect
) -> str:
    """An editable dialect file, on top of ``parent``, for the engine build that runs ``argv`` and lists ``flags``.

    It adds what is the build's own: flags of speculation that the parent does not drop, an algorithm that it does not
    know, and an axis for each of those flags that is in use.
    """
    lines = [
        "# Drafted from the running command line and the build's --help; edit it at will.",
        f"# All that is not written here is as in the dialect {parent.name}.",
        f"extends = {toml_text.text(parent.name)}",
        f"build = {toml_text.text(build)}",
        "",
        "# What runs, as read by it:",
        *(f"#   {name} = {toml_text.value(found)}" for name, found in axes_of(argv, env, parent).items()),
    ]
    lines += [
        f"# It cannot express {axis}: the build has no {' or '.join(lacking)}."
        for axis, lacking in _gone(parent, flags)
    ]
    own = _own_flags(argv, flags, parent)
    if own:
        lines += ["", "# The build's own flags of speculation: all dropped when the algorithm is none."]
        lines += ["[speculative]", f"flags = {toml_text.array(own)}"]
    return "\n".join([*lines, *_algorithm(argv, parent), *_axes(argv, own, parent)]) + "\n"


def recheck(dialect: Dialect, build: str, flags: Collection[str], drafted_on: str | None = None) -> list[Remark]:
    """What a changed build means for ``dialect``; nothing while the build is the one that it was drafted on.

    ``drafted_on`` counts where the dialect itself names no build, as a shipped one does not.
    """
    before = dialect.build or drafted_on
    if not flags or before in (None, build):
        return []
    found = [f"cannot write {axis} (no {' or '.join(lacking)})" for axis, lacking in _gone(dialect, flags)]
    missing = [flag for flag in dialect.match_flags if flag not in flags]
    if missing:
        found.insert(0, f"no longer fits, for the build has no {', '.join(missing)}")
    new = _own_flags((), flags, dialect)
    if new:
        more = f" and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
        found.append(f"would leave {', '.join(new[:_SHOWN])}{more} in place without speculation")
    what = "; it ".join(found) if found else "still writes and drops all that it knows"
    mend = (
        f"look at it and set build = {toml_text.text(build)} in it"
        if dialect.build
        else "a dialect of your own can mend it"
    )
    return [
        Remark(
            f"the engine is now {build} and the dialect {dialect.name} was last looked at on {before}: it {what}"
            + (f"; {mend}" if found or dialect.build else ""),
            blocks=bool(missing),
            cause="drift",
        )
    ]


def _gone(dialect: Dialect, flags: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """The axes that a build with ``flags`` cannot write, and the first flag of each spelling that it lacks."""
    for name, axis in dialect.axes.items():
        # One spelling is enough for any value; of single values each must be there.
        lacking = [sorted(flags_in(one.args) - set(flags)) for one in axis.spellings]
        if axis.spellings and all(lacking):
            yield name, [missing[0] for missing in lacking]
        own = sorted({flag for one in axis.values.values() for flag in flags_in(one.args)} - set(flags))
        if own:
            yield name, own[:1]


def _own_flags(argv: Sequence[str], flags: Collection[str], parent: Dialect) -> list[str]:
    """Flags of speculation, of the build and in use, that ``parent`` does not drop. Abbreviations are not flags."""
    used = {flag for flag in flags_in(argv) if not flags or flag in flags}
    return sorted(flag for flag in {*flags, *used} if flag.startswith(_SPECULATIVE) and flag not in parent.spec_flags)


def _algorithm(argv: Sequence[str], parent: Dialect) -> list[str]:
    named = last_values(argv, "--speculative-algorithm")
    axis = parent.axes.get("algorithm")
    known = dict(axis.values) if axis else {}
    if not named or axes_of(argv, {}, parent)["algorithm"] in {*known, NO_SPECULATION}:
        return []
    lines = ["", f"# {_quoted(named[0])} runs, which the dialect {parent.name} does not know."]
    known[_name(named[0])] = Setting(("--speculative-algorithm", named[0]))
    for value, setting in known.items():
        lines += toml_text.setting(f"axes.algorithm.{value}", setting)
    return lines


def _axes(argv: Sequence[str], own: Collection[str], parent: Dialect) -> Iterator[str]:
    written = {flag for axis in parent.axes.values() for one in settings_of(axis) for flag in flags_in(one.args)}
    in_use = {piece.flag: piece for piece in pieces(argv) if piece.flag in own and piece.flag not in written}
    for flag, piece in in_use.items():
        assert flag is not None
        short = _name(re.sub(r"^--spec(ulative)?-", "", flag))
        name = f"{short}_here" if short in parent.axes else short
        yield ""
        yield f"# {_quoted(' '.join(piece.tokens))} runs: give it a name of your own, or take it out."
        yield from _axis(f"axes.{name}", flag, piece)


def _axis(table: str, flag: str, piece: Piece) -> list[str]:
    if len(piece.values) == 1:
        return toml_text.setting(table, Setting((flag, "{value}")))
    if piece.values:
        return [f"# {table}: a flag of several values has no axis; a profile's args can give them."]
    on, off = Setting((flag,)), Setting(drop=(flag,))
    return [
        f"[{table}]",
        "default = false",
        *toml_text.setting(f"{table}.true", on),
        *toml_text.setting(f"{table}.false", off),
    ]


def _quoted(text: str) -> str:
    """``text`` of the host on one line, so that none of it leaves a comment."""
    return toml_text.text(text)[1:-1]


def _name(text: str) -> str:
    """``text`` as the name of an axis or a value."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"x_{name}"
