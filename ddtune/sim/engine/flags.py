"""SGLang's command line, built from the usage text that the real build prints."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

DATA = Path(__file__).parent / "data"
DDTREE_FLAGS = ("[--speculative-ddtree-budget SPECULATIVE_DDTREE_BUDGET]",)
ALIASES = {
    "--model-path": ("--model",),
    "--tp-size": ("--tensor-parallel-size", "--tp"),
    "--pp-size": ("--pipeline-parallel-size",),
    "--dp-size": ("--data-parallel-size", "--dp"),
    "--ep-size": ("--expert-parallel-size", "--ep"),
    "--speculative-draft-model-path": ("--speculative-draft-model",),
}
_ITEM = re.compile(r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]|--\S+ \S+")
_WHOLE = re.compile(
    r"_(size|tokens|requests|budget|topk|steps|len|length|timeout|port|rank|seed|reqs|bs_decode|bs_prefill)$"
)


def defaults() -> dict[str, Any]:
    """Every server argument with its default, by the names that ``/server_info`` uses."""
    values: dict[str, Any] = json.loads((DATA / "server_args.json").read_text(encoding="utf-8"))
    return values


class Parser(argparse.ArgumentParser):
    """Prints the real usage text; help names each flag once, which is what a probe for flags reads."""

    def __init__(self, items: Sequence[str]) -> None:
        super().__init__(prog="sglang serve", add_help=True)
        self._items = items

    def format_usage(self) -> str:
        """The usage, one item a line, as the real one wraps it."""
        return "usage: sglang serve " + "\n                    ".join(self._items) + "\n"

    def format_help(self) -> str:
        """The usage and one line for each option."""
        lines = [self.format_usage(), "options:"]
        for action in self._actions:
            name = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
            lines.append("  " + ", ".join(f"{option}{name}" for option in action.option_strings))
        return "\n".join(lines) + "\n"

    def error(self, message: str) -> NoReturn:
        """Usage and one line on standard error, exit status 2."""
        self.exit(2, f"{self.format_usage()}{self.prog}: error: {message}\n")


def parser(build: str) -> Parser:
    """The parser of one ``build``: ``ddtree`` or ``plain``."""
    items = _ITEM.findall((DATA / "usage.txt").read_text(encoding="utf-8"))
    if build == "ddtree":
        at = next(i for i, item in enumerate(items) if item.startswith("[--speculative-dflash-block-size"))
        items[at + 1 : at + 1] = DDTREE_FLAGS
    known = defaults()
    made = Parser(items)
    for item in items:
        if item != "[-h]":
            _add(made, item, known)
    return made


def _add(made: Parser, item: str, known: dict[str, Any]) -> None:
    text = item[1:-1] if item.startswith("[") else item
    option, _, rest = text.partition(" ")
    names = (option, *ALIASES.get(option, ()))
    dest = option[2:].replace("-", "_")
    default = known.get(dest)
    if rest.startswith("| --no-"):
        made.add_argument(*names, dest=dest, action=argparse.BooleanOptionalAction, default=default)
    elif not rest:
        made.add_argument(*names, dest=dest, action="store_true", default=bool(default))
    else:
        choices = re.match(r"\[?\{([^}]*)\}", rest)
        kind = _type(dest, default)
        # tc_piecewise parses in the real build too, which then says that it was removed.
        checked = choices is not None and not dest.startswith("cuda_graph_backend")
        made.add_argument(
            *names,
            dest=dest,
            default=default,
            required=not item.startswith("["),
            type=kind,
            nargs=_nargs(rest),
            choices=[kind(choice) for choice in choices.group(1).split(",")] if choices and checked else None,
            metavar=f"{{{choices.group(1)}}}" if choices else None,
        )


def _nargs(rest: str) -> str | None:
    if rest.endswith("...]]"):
        return "*"
    if rest.endswith("...]"):
        return "+"
    return "?" if rest.startswith("[") else None


def _type(dest: str, default: Any) -> Any:
    if isinstance(default, int) and not isinstance(default, bool):
        return int
    if isinstance(default, float) or dest == "mem_fraction_static":
        return float
    if default is None and _WHOLE.search(dest):
        return int
    return str
