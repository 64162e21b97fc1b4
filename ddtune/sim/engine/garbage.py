"""What a broken verify step makes of an answer. Nothing here knows how garbage is detected."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from ddtune.sim.engine.vocabulary import dice

_SYLLABLES = [
    "ka",
    "zu",
    "mor",
    "tel",
    "ish",
    "qua",
    "ven",
    "dri",
    "plo",
    "xar",
    "nim",
    "obe",
    "fug",
    "tys",
    "wen",
    "hal",
    "ert",
    "ius",
    "jop",
    "yla",
]
_COMMON = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "it",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "at",
    "be",
    "this",
    "from",
]
_PIECES = ["_", "++", "};", "</", "%d", "\\x", "Ã", "((", "<=", "::", "==>", "||", "0x7f", "NULL", "ª", "ß", "%s", ";;"]
_SCRIPTS = (
    "กำลังประมวลผลข้อมูลระบบที่ไม่ได้รับการยืนยันและ",
    "我们正在处理数据但是系统没有返回正确的结果因此",
    "ただいま処理中ですが結果を確認できませんでした",
    "обработка данных продолжается однако результат",
)
_SPANISH = (
    "además la corriente del río había cambiado y los vecinos del pueblo esperaban noticias sobre el puente nuevo "
    "mientras tanto el farero subía despacio por la escalera con una lámpara encendida"
)
_SPECIALS = ("<|im_end|>", "<|im_user|>", "<s>", "[PAD]", "<|tool_call_begin|>", "[EOS]", "<unk>")


def _bangs(_: random.Random) -> Iterator[str]:
    while True:
        yield "!"


def _loop(rng: random.Random) -> Iterator[str]:
    phrase = [rng.choice(_COMMON) for _ in range(rng.randint(3, 6))]
    while True:
        for word in phrase:
            yield " " + word


def _salad(rng: random.Random) -> Iterator[str]:
    while True:
        yield rng.choice((" " + "".join(rng.sample(_SYLLABLES, rng.randint(1, 3))), rng.choice(_PIECES)))


def _scripts(rng: random.Random) -> Iterator[str]:
    while True:
        script = rng.choice(_SCRIPTS)
        at = rng.randrange(len(script) - 4)
        yield from script[at : at + rng.randint(2, 4)]


def _specials(rng: random.Random) -> Iterator[str]:
    while True:
        yield from [rng.choice(_SPECIALS)] * rng.randint(1, 5)


def _doubled(rng: random.Random) -> Iterator[str]:
    while True:
        word = " " + rng.choice(_COMMON)
        yield from [word] * rng.randint(2, 3)


GENERATORS: tuple[Callable[[random.Random], Iterator[str]], ...] = (
    _bangs, _loop, _salad, _scripts, _specials, _doubled,
)  # fmt: skip


def garbage(prompt: str, seed: int, limit: int) -> list[str]:
    """Up to ``limit`` tokens for ``prompt``, one kind for each request; one kind of seven is no text at all."""
    kind = dice("garbage", seed, prompt) % (len(GENERATORS) + 1)
    if kind == len(GENERATORS):
        return []
    stream = GENERATORS[kind](random.Random(dice(seed, prompt)))
    return [next(stream) for _ in range(limit)]


def bangs(limit: int) -> list[str]:
    """``limit`` tokens of id 0."""
    return ["!"] * limit


def foreign(key: str, limit: int) -> list[str]:
    """``limit`` tokens of running text in a language that nobody asked for."""
    rng = random.Random(dice("foreign", key))
    text: Sequence[str] = rng.choice((*_SCRIPTS, [" " + word for word in _SPANISH.split()]))
    begin = rng.randrange(len(text))
    return [text[(begin + at) % len(text)] for at in range(limit)]
