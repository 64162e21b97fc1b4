"""From a running command line back to axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddtune.profiles.argv import flags_in, last_values, pieces
from ddtune.profiles.model import NO_SPECULATION, Axis, AxisValue, Dialect, Setting
from ddtune.profiles.template import is_hole, read


def axes_of(argv: Sequence[str], env: Mapping[str, str | None], dialect: Dialect) -> dict[str, AxisValue]:
    """The axes that ``argv`` and ``env`` stand for. An axis that they do not decide is left out.

    The engine's order holds: flags count before the environment, and of a flag given twice the last.
    """
    found: dict[str, AxisValue] = {}
    for name, axis in dialect.axes.items():
        value = _value(axis, argv, env)
        if value is not None:
            found[name] = value
    if found.get("algorithm", NO_SPECULATION) == NO_SPECULATION and "--speculative-algorithm" in dialect.spec_flags:
        named = last_values(argv, "--speculative-algorithm")
        found = {name: value for name, value in found.items() if named or not _speculative(dialect, name)}
        found["algorithm"] = named[0].lower() if named else NO_SPECULATION
    return found


def _speculative(dialect: Dialect, name: str) -> bool:
    """Whether an axis says nothing without speculation: all that it sets is speculative."""
    axis = dialect.axes[name]
    settings = (*axis.spellings, *axis.values.values())
    flags = {flag for setting in settings for flag in flags_in(setting.args)}
    env = {variable for setting in settings for variable in setting.env}
    return bool(flags or env) and flags <= set(dialect.spec_flags) and env <= set(dialect.spec_env)


def speculative_axes(dialect: Dialect) -> tuple[str, ...]:
    """The axes that say nothing without speculation."""
    return tuple(name for name in dialect.axes if name != "algorithm" and _speculative(dialect, name))


def _value(axis: Axis, argv: Sequence[str], env: Mapping[str, str | None]) -> AxisValue | None:
    signs = [(key, setting) for key, setting in axis.values.items()]
    signs += [(key, setting) for key, settings in axis.also.items() for setting in settings]
    for key, setting in signs:
        if setting.args and _present(setting, argv):
            return _typed(key)
    for setting in axis.spellings:
        value = _hole(setting, argv, env)
        if value is not None:
            return _typed(value)
    for key, setting in signs:
        if setting.env and not setting.args and all(env.get(name) == text for name, text in setting.env.items()):
            return _typed(key)
    return axis.default


def _present(setting: Setting, argv: Sequence[str]) -> bool:
    return all(piece.flag and last_values(argv, piece.flag) == piece.values for piece in pieces(setting.args))


def _hole(setting: Setting, argv: Sequence[str], env: Mapping[str, str | None]) -> str | None:
    for piece in pieces(setting.args):
        if piece.flag and len(piece.values) == 1 and is_hole(piece.values[0]):
            values = last_values(argv, piece.flag)
            return read(piece.values[0], values[0]) if values and len(values) == 1 else None
    held = next(((text, env.get(name)) for name, text in setting.env.items() if is_hole(text)), None)
    return None if held is None or held[1] is None else read(held[0], held[1])


def _typed(text: str) -> AxisValue:
    if text in ("true", "false"):
        return text == "true"
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
