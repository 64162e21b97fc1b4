"""The sets of requests that the gate sends, made from texts and a nonce.

The nonce stands at the start of each prompt's own part, so that the engine's prefix cache cannot serve an answer and a
cold run is compared with a cold run. Stable and candidate get the same nonce where their answers are compared.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from ddtune.gate.coding_problems import PROBLEMS
from ddtune.gate.probe import Probe, chat, generate, streamed
from ddtune.gate.texts import OPEN, QUESTIONS, SENTENCES, SURE, TOPICS
from ddtune.profiles.model import GateSizes

COPY_ASK = "Repeat the following text exactly, and nothing else."
QUICK_COPIES, STYLE_COPIES = 2, 6
BURST_WORDS = 40
QUICK_TOPICS = 4
QUESTION_TOKENS = 128
SURE_TOKENS = 24
LOOSE_WORDS = 12
# Tokens that all copies of one level may have together, above which they get shorter.
LEVEL_TOKENS = 9_000
REPEATED = 4
# Two, because one answer that loops is no sign of a fault.
LONG_ANSWERS = 2
LONGS, BESIDE, AFTERWARDS = 3, 5, 4
_BEGUN_WORDS = 6


def text_of(nonce: str, words: int) -> str:
    """A text of ``words`` words, different for each nonce, in one paragraph."""
    rng = random.Random(nonce)
    parts = [f"Note {nonce}."]
    count = 2
    for sentence in rng.sample(SENTENCES, len(SENTENCES)):
        if count >= words:
            break
        parts.append(sentence.format(n=rng.randrange(100, 10_000)))
        count += len(sentence.split())
    text = " ".join(" ".join(parts).split()[:words])
    # An end in mid-sentence invites to go on with it.
    return text if text.endswith(".") else text.rstrip(",;:") + "."


def copy(request_id: str, nonce: str, words: int, style: str = "chat", timeout_s: float = 60.0) -> Probe:
    """A request to copy a text between markers.

    ``style`` ``plain`` is for models that cannot chat: a third copy, already begun, of what is there twice. A model of
    a hundred million parameters goes on with that without a fault.
    """
    text = text_of(nonce, words)
    # A token is at least three letters of such text on average; the rest is room to go wrong visibly.
    limit = len(text) // 3 + 32
    if style == "chat":
        prompt = f"{COPY_ASK}\n<text>\n{text}\n</text>"
        return Probe(chat(request_id, prompt, limit, timeout_s), "copy", "prose", prompt, text)
    begun = " ".join(text.split()[:_BEGUN_WORDS])
    prompt = f"Text: {text}\nText: {text}\nText: {begun}"
    request = generate(request_id, prompt, limit, ("\n",), timeout_s)
    return Probe(request, "copy", "prose", prompt, text.removeprefix(begun).strip())


def quick_copies(nonce: str, style: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """The quick gate's verbatim copies."""
    return tuple(
        copy(f"quick-copy-{index}", f"{nonce}-{index}", sizes.copy_words, style) for index in range(QUICK_COPIES)
    )


def style_copies(nonce: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """What a model is asked besides before it counts as one that copies when it is told to."""
    return tuple(
        copy(f"style-copy-{index}", f"{nonce}-style-{index}", sizes.copy_words) for index in range(STYLE_COPIES)
    )


def long_copy(nonce: str, style: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """The full gate's long copy."""
    return (copy("long-copy", f"{nonce}-long", sizes.long_copy_words, style, timeout_s=120.0),)


def burst(nonce: str, level: int, count: int, style: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """``count`` short copies, for one concurrency level."""
    words = min(burst_words(count), sizes.copy_words)
    return tuple(copy(f"burst-{level}-{index}", f"{nonce}-b{level}-{index}", words, style) for index in range(count))


def burst_words(count: int) -> int:
    """The words of each of ``count`` copies that are sent together."""
    return max(LOOSE_WORDS, min(BURST_WORDS, LEVEL_TOKENS // (3 * count)))


def mixed(nonce: str, style: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """One copy asked several times among others that are each asked once."""
    same = copy("mixed-same", f"{nonce}-same", min(BURST_WORDS, sizes.copy_words), style)
    repeated = [replace(same, request=replace(same.request, id=f"mixed-same-{index}")) for index in range(REPEATED)]
    others = [
        _continuation(f"mixed-topic-{index}", f"{nonce}-m", index, min(QUESTION_TOKENS, sizes.tokens))
        for index in range(max(0, sizes.mixed - REPEATED))
    ]
    step = max(1, len(others) // REPEATED)
    for index, probe in enumerate(repeated):
        others.insert(index * (step + 1), probe)
    return tuple(others)


def long_prompts(nonce: str, style: str, sizes: GateSizes, count: int) -> tuple[Probe, ...]:
    """Copies of what stands at the end of prompts of ``long_prompt_words`` words."""
    return tuple(_long_prompt(f"long-prompt-{index}", f"{nonce}-{index}", style, sizes) for index in range(count))


def _long_prompt(request_id: str, nonce: str, style: str, sizes: GateSizes) -> Probe:
    filler = " ".join(text_of(f"{nonce}-f{index}", 300) for index in range(math.ceil(sizes.long_prompt_words / 300)))
    probe = copy(request_id, f"{nonce}-behind", min(BURST_WORDS, sizes.copy_words), style, timeout_s=120.0)
    prompt = f"Old notes, which do not matter: {filler}\n\n{probe.prompt}"
    body = dict(probe.request.body)
    if "messages" in body:
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["text"] = prompt
    return replace(probe, request=replace(probe.request, body=body), prompt=prompt)


def beside_long(nonce: str, style: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """Short copies that run beside the long prompts."""
    words = min(BURST_WORDS, sizes.copy_words)
    return tuple(copy(f"long-beside-{index}", f"{nonce}-l{index}", words, style) for index in range(BESIDE))


def after_long(nonce: str, style: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """Short copies that are asked once the long prompts are over."""
    words = min(BURST_WORDS, sizes.copy_words)
    return tuple(copy(f"long-after-{index}", f"{nonce}-a{index}", words, style) for index in range(AFTERWARDS))


def wide_margins(nonce: str, count: int) -> tuple[Probe, ...]:
    """The first ``count`` short questions with one sure answer."""
    return tuple(
        Probe(chat(f"sure-{index}", f"[{nonce}] {text}", SURE_TOKENS), "sure", "list", text, answer)
        for index, (text, answer) in enumerate(SURE[:count])
    )


def sampled(nonce: str, count: int, sizes: GateSizes) -> tuple[Probe, ...]:
    """Open questions with production's own sampling, the second half as raw completions, which tell verify calls."""
    tokens, own = min(QUESTION_TOKENS, sizes.tokens), dict(sizes.sampling)
    found = []
    for index in range(count):
        kind, text = OPEN[index % len(OPEN)]
        prompt, name = f"[{nonce}-{index}] {text}", f"sampled-{index}"
        if index < count / 2:
            request = streamed(chat(name, prompt, tokens))
            body = {key: value for key, value in request.body.items() if key != "temperature"} | own
        else:
            request = generate(name, f"{prompt}\n\n", tokens)
            body = {**request.body, "sampling_params": {"max_new_tokens": tokens, **own}}
        found.append(Probe(replace(request, body=body), "sampled", kind, text))
    return tuple(found)


def soak_round(
    nonce: str, number: int, count: int, style: str, sizes: GateSizes, *, long: bool = False
) -> tuple[Probe, ...]:
    """One round of the soak: copies, with ``long`` one behind a long prompt, and a continuation, which tells what is
    accepted.
    """
    own = f"{nonce}-s{number}"
    behind = (_long_prompt(f"soak-{number}-long", f"{own}-long", style, sizes),) if long else ()
    copies = tuple(
        copy(f"soak-{number}-{index}", f"{own}-{index}", sizes.copy_words, style)
        for index in range(max(1, count - 1 - len(behind)))
    )
    return (*behind, *copies, _continuation(f"soak-{number}-topic", own, number, sizes.tokens))


def quick_continuations(nonce: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """The quick gate's prompts for agreement with stable."""
    return tuple(
        _continuation(f"quick-topic-{index}", f"{nonce}-q", index, sizes.tokens) for index in range(QUICK_TOPICS)
    )


def single_continuations(nonce: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """The full gate's prompts for agreement, sent one at a time."""
    return tuple(
        _continuation(f"single-topic-{index}", f"{nonce}-1", index, sizes.tokens) for index in range(sizes.singles)
    )


def crowd_continuations(nonce: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """The full gate's prompts for agreement, sent together; the first two are long."""
    return tuple(
        _continuation(
            f"crowd-topic-{index}",
            f"{nonce}-c{index // len(TOPICS)}",
            index,
            2 * sizes.tokens if index >= LONG_ANSWERS else max(sizes.long_tokens, 2 * sizes.tokens),
        )
        for index in range(sizes.crowd)
    )


def continuations(nonce: str, sizes: GateSizes, *, full: bool = True) -> tuple[Probe, ...]:
    """All prompts for agreement."""
    quick = quick_continuations(nonce, sizes)
    return (*quick, *single_continuations(nonce, sizes), *crowd_continuations(nonce, sizes)) if full else quick


def questions(nonce: str, sizes: GateSizes) -> tuple[Probe, ...]:
    """Two short chat questions, answered as a stream, which only the detectors read."""
    tokens = min(QUESTION_TOKENS, sizes.tokens)
    return tuple(
        Probe(streamed(chat(f"question-{index}", f"[{nonce}] {text}", tokens)), "question", kind, text)
        for index, (kind, text) in enumerate(QUESTIONS)
    )


def coding(nonce: str, count: int, max_tokens: int, names: tuple[str, ...] | None = None) -> tuple[Probe, ...]:
    """The first ``count`` coding problems, or those of them in ``names``."""
    chosen = [problem for problem in PROBLEMS[:count] if names is None or problem.name in names]
    return tuple(
        Probe(
            chat(f"coding-{problem.name}", f"[{nonce}] {problem.prompt}", max_tokens),
            "code",
            "code",
            problem.prompt,
            problem.name,
        )
        for problem in chosen
    )


def _continuation(request_id: str, nonce: str, topic: int, max_tokens: int) -> Probe:
    kind, text = TOPICS[topic % len(TOPICS)]
    prompt = f"[{nonce}] {text}"
    return Probe(generate(request_id, prompt, max_tokens), "continue", kind, prompt)
