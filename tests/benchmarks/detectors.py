"""What the detectors' limits rest on: healthy and broken text that no test uses, measured. Writes docs/gate.md's table.

Run it with ``python -m tests.benchmarks.detectors [--seed N]``. Healthy: Python's own reference (English with tables
and examples, in its standard library) in pieces of three lengths, the library's source, and a few paragraphs in other
languages. Broken: made here of the same text, by generators that neither the tests nor the embedded engine have. It
ends with 1 where a limit does not lie between the two: above all but one in a thousand of the healthy, and below nine
in ten of the broken.
"""

from __future__ import annotations

import argparse
import base64
import random
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics  # type: ignore[import-untyped]  # it has no stubs

from ddtune.gate import detectors, scripts, signs
from tests.benchmarks.gate_table import PAGE

BEGIN, END = "<!-- detectors -->\n", "<!-- end of detectors -->\n"
FOREIGN = (
    "Der Fährmann zählte die Glocken, bevor er ablegte, denn bei Nebel war der Ton das Einzige, was vom Ufer blieb. "
    "Wer übersetzen wollte, wartete unter dem Dach, bis das Licht am anderen Ende zweimal aufschien.",
    "Le boulanger laissait la porte ouverte pendant la nuit, et l'odeur du pain descendait jusqu'au canal où les "
    "péniches attendaient l'aube. On disait que les mariniers réglaient leur montre sur lui.",
    "桥上的灯每天傍晚六点点亮，管灯的老人会先看一看河水的高低，再决定要不要把下游的船叫住。孩子们喜欢跟着他数灯，"
    "从东岸数到西岸一共二十七盏，只有下雪的时候会少一盏。",
    "夕方になると市場の屋根に鳥が集まり、魚屋は売れ残りを少しだけ石の上に置いておく。毎日同じ時間に来るので、"
    "時計の代わりになると言う人もいる。雨の日だけは誰も来ない。",
    "Мельник каждое утро поднимался на дамбу и смотрел, сколько воды осталось за ночь. Если камень у берега был "
    "сухим, он отпускал работников до полудня и чинил колесо сам.",
)
LETTERS = "ԱԲԳԴԵԶ אבגדהו अआइईउऊ ႠႡႢႣႤ ሀሁሂሃ"


@dataclass(frozen=True)
class Measure:
    """One limit. ``of`` is the number that it bounds; ``low`` where small numbers are the broken ones."""

    said: str
    limit: float
    of: Callable[[str], float]
    healthy: Sequence[str]
    broken: Sequence[str]
    low: bool = False


def pieces(text: str, words: int) -> Iterator[str]:
    """``text`` cut after every ``words`` words, its spaces kept."""
    found = re.findall(r"\S+\s*", text)
    for at in range(0, len(found) - words // 2, words):
        yield "".join(found[at : at + words])


def prose() -> list[str]:
    """Paragraphs of the reference in plain English: 30 words and more, neither tables nor examples."""
    every = (" ".join(part.split()) for text in topics.values() for part in re.split(r"\n\s*\n", text))
    plain = re.compile(r"[A-Z][^|=>{}\[\]]+[.:]")
    return [part for part in every if len(part.split()) >= detectors.GRAMMAR_WORDS and plain.fullmatch(part)]


def source() -> list[str]:
    """The standard library's source in pieces."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [piece for path in files for piece in pieces(path.read_text(errors="replace"), 200)]


def repeated(rng: random.Random, text: str) -> str:
    """A good beginning, then one word for the rest."""
    words = text.split()
    again = rng.choice([word for word in words if word.isalpha()])
    return " ".join([*words[: rng.randrange(20, 60)], *[again] * rng.randint(12, 200)])


def one_sign(rng: random.Random, text: str) -> str:
    """A good beginning, then one character for the rest."""
    return text[: rng.randrange(50, 300)] + rng.choice("!?@0aÿ�,") * rng.randint(40, 300)


def looped(rng: random.Random, text: str) -> str:
    """A good beginning, then a phrase of it over and over."""
    words = text.split()
    at, long = rng.randrange(30), rng.randint(2, 45)
    phrase = words[at : at + long]
    times = max(5, -(-rng.randint(60, 300) // len(phrase)))
    return " ".join(words[: rng.randrange(20, 60)] + phrase * times)


def stuttered(rng: random.Random, text: str) -> str:
    """A word in twelve to twenty twice."""
    share = rng.uniform(1 / 20, 1 / 12)
    return " ".join(f"{word} {word}" if rng.random() < share else word for word in text.split())


def scrambled(rng: random.Random, words: Sequence[str]) -> str:
    """Words of the language, each as likely as any other."""
    return " ".join(rng.choice(words) for _ in range(rng.randint(40, 200)))


def noise(rng: random.Random) -> str:
    """Bytes as text: base 85, or as a wrong encoding shows them."""
    raw = rng.randbytes(rng.randint(400, 1500))
    return base64.b85encode(raw).decode() if rng.random() < 0.5 else raw.decode("latin-1")


def strewn(rng: random.Random, text: str) -> str:
    """Letters of scripts that nobody asked for among the words."""
    words = text.split()
    for _ in range(rng.randint(6, 20)):
        words.insert(rng.randrange(len(words)), "".join(rng.choices(LETTERS.replace(" ", ""), k=rng.randint(1, 3))))
    return " ".join(words)


def loop_share(text: str) -> float:
    """How far the end of a text is into what counts as a loop: 1 and more is one."""
    words, most = text.split(), 0.0
    for period, length in signs.loops(words):
        lettered = any(char.isalpha() for word in words[-period:] for char in word)
        least = max(detectors.LOOP_TIMES * period, detectors.LOOP_WORDS if lettered else detectors.LOOP_FIGURES)
        most = max(most, min(length / least, length / (detectors.LOOP_SHARE * len(words))))
    return most


def doubles(text: str) -> int:
    """Doubled words, one more in a short text, where two of them are enough."""
    twice, words = signs.doubled(text)
    return len(twice) + (bool(twice) and words < detectors.FEW_WORDS)


def measures(rng: random.Random) -> list[Measure]:
    """All limits with the texts on both sides of them."""
    reference = [piece for text in topics.values() for words in (60, 150, 400) for piece in pieces(text, words)]
    long = [text for text in reference if len(text.split()) > 100]
    english, everything = prose(), [*reference, *source(), *FOREIGN]
    bulky = [text for text in everything if len(text.encode()) >= detectors.LEAST_BYTES]
    vocabulary = sorted({word for text in english for word in re.findall(r"[a-z]+", text)})

    def make(broken: Callable[[random.Random, str], str], of: Sequence[str] = long) -> list[str]:
        return [broken(rng, rng.choice(of)) for _ in range(400)]

    d = detectors
    return [
        Measure(
            "one word in a row", d.WORD_RUN, lambda t: signs.word_runs(t)[0][0], everything, make(repeated, english)
        ),
        Measure(
            "one character in a row",
            d.CHARACTER_RUN,
            lambda t: signs.character_runs(t)[0][0],
            everything,
            make(one_sign),
        ),
        Measure(
            "the end in a loop", 1, loop_share, everything, make(looped, [t for t in english if len(t.split()) > 60])
        ),
        Measure(
            "size left by zlib, too small",
            d.LEAST_COMPRESSED,
            signs.compressed,
            bulky,
            [rng.choice(english)[:80] * 60 for _ in range(400)],
            low=True,
        ),
        Measure(
            "size left by zlib, too large", d.MOST_COMPRESSED, signs.compressed, bulky, [noise(rng) for _ in range(400)]
        ),
        Measure(
            "letters of another script", d.LETTERS, lambda t: scripts.unexpected(t, "").total(), english, make(strewn)
        ),
        Measure("words doubled", d.DOUBLES, doubles, reference, make(stuttered)),
        Measure(
            "share of words that hold sentences together",
            d.FUNCTION_SHARE,
            lambda t: signs.function_share(t)[0],
            english,
            [scrambled(rng, vocabulary) for _ in range(400)],
            low=True,
        ),
    ]


def row(measure: Measure) -> tuple[str, bool]:
    """The table's line, and whether the limit lies between."""
    sign = -1 if measure.low else 1

    def over(texts: Sequence[str]) -> tuple[list[float], int]:
        values = sorted(sign * measure.of(text) for text in texts)
        # A count is too much from its limit on, a share beyond it.
        counts = isinstance(measure.limit, int)
        return values, sum(value > sign * measure.limit or (counts and value == measure.limit) for value in values)

    healthy, false = over(measure.healthy)
    broken, found = over(measure.broken)
    worst, mild = abs(healthy[-1]), abs(broken[len(broken) // 10])
    line = (
        f"| {measure.said} | {measure.limit:g} | {worst:.3g} in {len(healthy):,}; {false} beyond | "
        f"{mild:.3g}; {found} of {len(broken)} beyond |"
    )
    return line, false <= len(healthy) / 1000 and found >= 0.9 * len(broken)


def main() -> None:
    """Measure, write, and say whether all limits hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    rows = [row(measure) for measure in measures(random.Random(seed))]
    lines = [
        "| what is measured | limit | worst healthy text | mildest tenth of the broken ones |",
        "|---|---|---|---|",
        *(line for line, _ in rows),
    ]
    python = ".".join(map(str, sys.version_info[:2]))
    text = "\n".join([*lines, "", f"The reference and library of Python {python}, seed {seed}."]) + "\n"
    print(text)
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}{text}{END}{tail}")
    raise SystemExit(0 if all(holds for _, holds in rows) else 1)


if __name__ == "__main__":
    main()
