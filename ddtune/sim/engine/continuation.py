"""Goes on with a text in its own kind: prose in three languages, code, lists, tables and JSON."""

from __future__ import annotations

import itertools
import random
import re

from ddtune.sim.engine.sentences import sentence
from ddtune.sim.engine.ties import broken, ties
from ddtune.sim.engine.vocabulary import dice, tokens

_GERMAN = re.compile(r"\b(der|die|das|und|nicht|ein|eine|wird|wie|ist|mit)\b", re.IGNORECASE)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_CODE = re.compile(r"^\s*(def |class |import |function |const |#include|for \(|return |//)", re.MULTILINE)
_NAMES = [
    "item",
    "row",
    "left",
    "right",
    "total",
    "index",
    "value",
    "start",
    "end",
    "count",
    "key",
    "node",
    "size",
    "offset",
    "limit",
    "width",
]
_DOINGS = ["load", "merge", "filter", "count", "format", "normalise", "split", "measure", "order", "collect"]
_PLACES = [
    "Harbour",
    "Mill",
    "Castle",
    "Market",
    "Bridge",
    "Orchard",
    "Garden",
    "Abbey",
    "Foundry",
    "Meadow",
    "Lock",
    "Chapel",
]
_STEPS = ["Loosen", "Remove", "Check", "Clean", "Tighten", "Turn", "Inflate", "Align", "Wipe", "Fit", "Test", "Store"]
_PARTS = [
    "axle nuts",
    "brake pads",
    "inner tube",
    "rim",
    "valve",
    "tyre lever",
    "chain",
    "rear wheel",
    "frame",
    "spare patch",
    "pump",
    "saddle",
]


def kind_of(prompt: str) -> str:
    """What sort of text ``prompt`` begins: chinese, data, code, table, list, german or english."""
    tail = prompt[-1500:]
    if len(_CHINESE.findall(tail)) > 5:
        return "chinese"
    if re.search(r'[{\[]"\w+": ?', tail):
        return "data"
    if _CODE.search(tail):
        return "code"
    if "|---" in tail:
        return "table"
    if re.search(r"^\d+\.", tail, re.MULTILINE):
        return "list"
    return "german" if len(_GERMAN.findall(tail)) > 3 else "english"


def continuation(
    prompt: str, limit: int, variant: str, endless: bool, salt: object = "", flip: int | None = None
) -> tuple[list[str], bool]:
    """At most ``limit`` tokens that go on with ``prompt``, and whether the text ended by itself.

    Engines of different ``variant`` write the same text until a near-tie, seldom before 40 tokens and for most prompts
    not at all. ``flip`` is an earlier near-tie that this run breaks the other way. What follows a near-tie is the same
    for all that break it so.
    """
    own = broken(seed_of(prompt, salt), variant, limit)
    flip = own if flip is None else flip if own is None else min(own, flip)
    return _written(prompt, limit, endless, salt, flip)


def near(prompt: str, limit: int, salt: object = "") -> list[list[str]]:
    """All texts of ``limit`` tokens that go on with ``prompt`` and part from another at one near-tie."""
    flips = (None, *ties(seed_of(prompt, salt), limit))
    return [_written(prompt, limit, True, salt, flip)[0] for flip in flips]


def _written(prompt: str, limit: int, endless: bool, salt: object, flip: int | None) -> tuple[list[str], bool]:
    seed = seed_of(prompt, salt)
    length = 140 + dice("length", seed) % 360
    written: list[str] = []
    kind, branch = kind_of(prompt), ""
    for index in itertools.count():
        if flip is not None and not branch and len(written) >= flip:
            branch = f"other {len(written)}"
        written += tokens(_unit(kind, index, seed, random.Random(dice(seed, index, branch))))
        if len(written) >= limit:
            return written[:limit], False
        if not endless and len(written) >= length:
            break
    return written, True


def seed_of(prompt: str, salt: object = "") -> int:
    """Names the text that goes on with ``prompt``; ``salt`` tells sampled runs apart."""
    return dice(prompt, salt)


def _unit(kind: str, index: int, seed: int, rng: random.Random) -> str:
    match kind:
        case "code":
            return _code(index, rng)
        case "list":
            return f" {rng.choice(_STEPS)} the {rng.choice(_PARTS)}.\n{index + 3}."
        case "table":
            return f" {index + 2} |\n| {rng.choice(_PLACES)} {rng.choice(_PLACES).lower()} |"
        case "data":
            name = f"{rng.choice(_PLACES)} {rng.choice(('Road', 'Street', 'Lane', 'Quay'))}"
            return f' "{name}", "platforms": {rng.randint(1, 9)}, "opened": {rng.randint(1850, 1990)}}}, {{"name":'
    text = sentence(kind, index, random.Random(seed), rng)
    if kind == "chinese":
        return text
    return ("\n\n" if index and index % 5 == 0 else " ") + text


def _code(index: int, rng: random.Random) -> str:
    one, two = rng.sample(_NAMES, 2)
    name = f"{rng.choice(_DOINGS)}_{rng.choice(_NAMES)}_{index}"
    body = rng.choice(
        (
            f"{one} = sorted({two})\n    return {one}[:{rng.randint(2, 9)}]",
            f"if {one} < {two}:\n        {one}, {two} = {two}, {one}\n    return {one} * {rng.randint(2, 30)} + {two}",
            f"return [{one} for {one} in {two} if {one} % {rng.randint(2, 9)} == 0]",
            f"while {two} > {rng.randint(0, 9)}:\n        {one} += {two}\n        {two} -= 1\n    return {one}",
        )
    )
    lead = f"return {one}\n\n\n" if index == 0 else ""
    return f"{lead}def {name}({one}, {two}):\n    {body}\n\n\n"
