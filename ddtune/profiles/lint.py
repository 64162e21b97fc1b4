"""What is wrong or odd with a profile, before anything is stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ddtune.config.names import did_you_mean
from ddtune.profiles.argv import flags_in, last_values, pieces
from ddtune.profiles.axes import axes_of, speculative_axes
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.model import NO_SPECULATION, Axis, Base, Dialect, Profile, Remark, settings_of, speculates
from ddtune.profiles.resolve import resolve

_ROWS_FLAG = "--speculative-num-draft-tokens"
_BLOCK_FLAGS = ("--speculative-dflash-block-size", _ROWS_FLAG)
_DRAFT_FLAGS = ("--speculative-draft-model-path", "--speculative-draft-model")
_COUNTS = (
    *("budget", "topk", "draft_window", "draft_tokens", "steps", "bfs_breadth", "trie_depth"),
    *("graph_max_batch", "max_running"),
)
_DRAFTED = ("ddtree", "dflash", "eagle3")
_GRAPH_BATCH = ("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs", "--max-running-requests")
_INDEX_BYTES = 8
BUFFER_GB = 4.0
"""From how much on each GPU a graph's index buffer is worth a remark."""


def lint(
    profile: Profile, dialect: Dialect, flags: Collection[str] | None = None, base: Base | None = None
) -> list[Remark]:
    """Remarks on ``profile`` for a build of ``dialect`` with ``flags`` and, where it is given, on ``base``."""
    found = [*_unknown_axes(profile, dialect), *_contradictions(profile, dialect), *_ranges(profile)]
    try:
        release = resolve(base or Base((), "/"), profile, dialect, flags)
    except UnsupportedAxis as error:
        if error.axis == "algorithm":
            # Of another dialect as a whole: what its axes lack says nothing more.
            return [Remark(str(error), True, "unsupported_axis")]
        told = any(remark.cause == "unsupported_axis" for remark in found)
        return [*found, *([] if told else [Remark(str(error), True, "unsupported_axis")])]
    found += _foreign_flags(profile, flags)
    found += _needs(profile, dialect, release.argv, base is not None)
    # What the base brings counts as much as what the profile says.
    brought = axes_of(release.argv, release.env_set, dialect) if base is not None else {}
    whole = replace(profile, axes={**brought, **profile.axes})
    found += _symmetric_memory(whole)
    if whole.axes.get("algorithm") == "ddtree":
        found += _tree(whole, dialect, release.argv)
        found += _buffer(whole, release.argv)
    if base is not None and base.argv and profile.axes.get("algorithm") == "ddtree":
        found += _clients(base)
    if base is not None:
        found += _base(base, profile, dialect, flags)
    return found


def _unknown_axes(profile: Profile, dialect: Dialect) -> Iterator[Remark]:
    for axis in profile.axes:
        known = axis in dialect.axes or axis in dialect.lacks
        if not known and not (axis == "algorithm" and profile.axes[axis] == NO_SPECULATION):
            near = did_you_mean(axis, dialect.axes)
            yield Remark(f"the dialect {dialect.name} knows no axis {axis!r}{near}", True, "unsupported_axis")


def _contradictions(profile: Profile, dialect: Dialect) -> Iterator[Remark]:
    axes = profile.axes
    if axes.get("symm_mem") is True and axes.get("nvls") is False:
        yield Remark("symm_mem turns NVLS on in the engine, so nvls = false cannot hold beside it", True, "bad_flags")
    if axes.get("algorithm") == NO_SPECULATION:
        for axis in speculative_axes(dialect):
            if axis in axes:
                yield Remark(f"{axis} says nothing without speculation and is left out")
    if axes.get("algorithm") == "ddtree" and axes.get("overlap") is True:
        yield Remark("DDTree switches the overlap schedule off by itself, so overlap = true does nothing")


def _symmetric_memory(profile: Profile) -> Iterator[Remark]:
    axes = profile.axes
    if speculates(axes) and axes.get("symm_mem") is True and axes.get("graphs") is not False:
        yield Remark(
            "symmetric memory with speculation under CUDA graphs is known to give wrong text without an error, "
            "with torch before 2.13 or NCCL before 2.30.7"
        )


def _ranges(profile: Profile) -> Iterator[Remark]:
    for axis in _COUNTS:
        value = profile.axes.get(axis)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            yield Remark(f"{axis} must be a whole number from 1, not {value!r}", True, "bad_flags")


def _foreign_flags(profile: Profile, flags: Collection[str] | None) -> Iterator[Remark]:
    for piece in pieces(profile.args):
        if flags and piece.flag and piece.flag not in flags:
            near = did_you_mean(piece.flag, flags)
            yield Remark(f"this build has no {piece.flag}{near}, which the profile's args ask for", True, "bad_flags")


def _needs(profile: Profile, dialect: Dialect, argv: Sequence[str], whole: bool) -> Iterator[Remark]:
    algorithm = str(profile.axes.get("algorithm", NO_SPECULATION))
    for flag, wanted in dialect.needs.get(algorithm, {}).items():
        values = last_values(argv, flag)
        if values is not None and values != (wanted,):
            yield Remark(f"{algorithm} needs {flag} {wanted}, not {' '.join(values)}", True, "bad_flags")
    if whole and algorithm in _DRAFTED and all(last_values(argv, flag) is None for flag in _DRAFT_FLAGS):
        yield Remark(
            f"{algorithm} needs a draft model: put {_DRAFT_FLAGS[0]} into the profile's args", True, "bad_flags"
        )


def _tree(profile: Profile, dialect: Dialect, argv: Sequence[str]) -> Iterator[Remark]:
    if last_values(argv, "--speculative-use-rejection-sampling") is not None:
        yield Remark("DDTree does not work with --speculative-use-rejection-sampling", True, "bad_flags")
    spelled = (flag for setting in settings_of(dialect.axes.get("budget", Axis(""))) for flag in flags_in(setting.args))
    if _ROWS_FLAG in spelled:
        # This build takes the rows from the budget itself.
        return
    budget = profile.axes.get("budget")
    block = next((number for flag in _BLOCK_FLAGS if (number := _number(argv, flag)) is not None), None)
    if not isinstance(budget, int) or block is None:
        return
    if budget <= block - 1:
        yield Remark(f"budget {budget} with a block of {block} is a plain chain, not a tree")
    elif block != budget + 1:
        yield Remark(
            f"budget {budget} verifies {budget + 1} rows and --speculative-num-draft-tokens is {block}: a build that "
            "sizes its graph's buffers by the latter reads beyond them"
        )


def _buffer(profile: Profile, argv: Sequence[str]) -> Iterator[Remark]:
    """Triton's verify graph keeps one index for each row of the largest batch and each token of the context."""
    budget, context = profile.axes.get("budget"), _number(argv, "--context-length")
    batch = next((number for flag in _GRAPH_BATCH if (number := _number(argv, flag)) is not None), None)
    eager = profile.axes.get("graphs") is False or last_values(argv, "--disable-cuda-graph") is not None
    if eager or not isinstance(budget, int) or context is None or batch is None:
        return
    gigabytes = _INDEX_BYTES * batch * (budget + 1) * context / 1e9
    if gigabytes >= BUFFER_GB:
        yield Remark(
            f"the graph's index buffer takes {gigabytes:.1f} GB on each GPU: {batch} requests × {budget + 1} rows × "
            f"{context} tokens of context × {_INDEX_BYTES} bytes"
        )


def _clients(base: Base) -> Iterator[Remark]:
    """``base`` is what clients are used to."""
    running = last_values(base.argv, "--speculative-algorithm")
    if running is None or running[0].lower() != "ddtree":
        yield Remark("ddtree refuses requests for logprobs or with a grammar (JSON schema, strict tool calls)")


def _base(base: Base, profile: Profile, dialect: Dialect, flags: Collection[str] | None) -> Iterator[Remark]:
    used = [piece.flag for piece in pieces(base.argv) if piece.flag]
    if "--config" in used:
        yield Remark("the service also reads a --config file, which may set flags that a profile thinks absent")
    if "graphs" in profile.axes and "--cuda-graph-config" in used:
        yield Remark("--cuda-graph-config counts before every other graph flag, so the axis graphs may not hold")
    if profile.axes.get("algorithm") == NO_SPECULATION:
        for flag in used:
            if flag.startswith("--spec") and flag not in dialect.spec_flags:
                yield Remark(f"{flag} looks speculative, is unknown to the dialect {dialect.name} and stays")
    for flag in used:
        longer = [known for known in flags or () if known.startswith(flag) and known != flag]
        if flag.startswith("--") and longer and flag not in (flags or ()):
            yield Remark(f"{flag} is an abbreviation ({', '.join(longer[:3])}); its meaning may change with the build")


def _number(argv: Sequence[str], flag: str) -> int | None:
    values = last_values(argv, flag)
    return int(values[0]) if values and values[0].isascii() and values[0].isdigit() else None
