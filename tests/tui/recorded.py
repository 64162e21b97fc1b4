"""Views, plans and outcomes as JSON: written from an embedded host by ``python -m tests.tui.record``, read by tests."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ddtune.live.series import WINDOWS_S, Series, Window
from ddtune.tui.view import View

DATA = Path(__file__).parent / "data"


class Shown:
    """The series of a recorded moment: the windows that its charts showed."""

    version = 0

    def __init__(self, windows: dict[str, Any]) -> None:
        self._windows = {int(length): build(Window, one) for length, one in windows.items()}

    def window(self, length_s: int, now: float) -> Window:
        del now
        return self._windows[length_s]


def write(name: str, value: Any) -> None:
    """A view is written with the windows of its series, and without what comes with ddtune."""
    if isinstance(value, View):
        windows = {length: asdict(value.series.window(length, value.snapshot.at)) for length in WINDOWS_S}
        told = {**asdict(replace(value, series=None, envelope=())), "windows": rounded(windows)}
        del told["series"], told["envelope"]
        text = json.dumps(told, ensure_ascii=False)
    else:
        text = json.dumps(asdict(value), indent=1, ensure_ascii=False)
    (DATA / f"{name}.json").write_text(text + "\n")


def rounded(value: Any) -> Any:
    """Numbers of a window with as many digits as a chart can show."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items() if key not in ("low", "high")}
    if isinstance(value, tuple):
        return [rounded(one) for one in value]
    return round(value, 2) if isinstance(value, float) else value


def view(name: str) -> View:
    """A recorded moment with its charts."""
    told = json.loads((DATA / f"{name}.json").read_text())
    return replace(build(View, told), series=Shown(told["windows"]) if "windows" in told else Series())


def read(name: str, kind: type) -> Any:
    return build(kind, json.loads((DATA / f"{name}.json").read_text()))


def build(kind: Any, value: Any) -> Any:
    """``value`` as JSON has it, as an instance of the annotation ``kind``."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if value is None or kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return build(next(one for one in args if one is not type(None)), value)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [one.name for one in fields(kind) if one.name in value]
        return kind(**{name: build(hints[name], value[name]) for name in names})
    if origin is tuple:
        return tuple(
            build(args[0] if args[-1] is ... else arg, one) for arg, one in zip(_each(args, value), value, strict=True)
        )
    if origin in (dict, Mapping) or kind is dict:
        return {_key(args, key): build(args[1], one) for key, one in value.items()} if args else value
    return kind(value) if isinstance(kind, type) and issubclass(kind, Enum) else value


def _each(args: tuple[Any, ...], value: list[Any]) -> list[Any]:
    return [args[0]] * len(value) if args[-1] is ... else list(args)


def _key(args: tuple[Any, ...], key: str) -> Any:
    return int(key) if args[0] is int else key
