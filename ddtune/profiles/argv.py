"""A command line as flags with their values. Flags are known by their exact spelling only.

argparse also takes unique prefixes, whose meaning changes when a build gains a flag: those are never read or rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"-(?:\d+|\d*\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Piece:
    """A flag with all its values as written; ``flag`` is None for what comes before the first flag."""

    flag: str | None
    tokens: tuple[str, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The values, whether written behind a space or an equals sign."""
        if self.flag is None:
            return self.tokens
        head = self.tokens[0]
        joined = (head[len(self.flag) + 1 :],) if head != self.flag else ()
        return (*joined, *self.tokens[1:])


def is_flag(token: str) -> bool:
    """Whether argparse takes ``token`` as an option: a dash that begins neither a number nor words."""
    name = token.partition("=")[0]
    return len(token) > 1 and token[0] == "-" and " " not in name and not _NUMBER.fullmatch(token)


def pieces(argv: Iterable[str]) -> list[Piece]:
    """``argv`` taken apart; ``join`` puts it together unchanged."""
    found: list[Piece] = []
    flag: str | None = None
    tokens: list[str] = []
    for token in argv:
        if is_flag(token):
            if tokens:
                found.append(Piece(flag, tuple(tokens)))
            flag, tokens = token.partition("=")[0], [token]
        else:
            tokens.append(token)
    if tokens:
        found.append(Piece(flag, tuple(tokens)))
    return found


def join(found: Iterable[Piece]) -> tuple[str, ...]:
    """The command line of these pieces."""
    return tuple(token for piece in found for token in piece.tokens)


def last_values(argv: Sequence[str], flag: str) -> tuple[str, ...] | None:
    """The values of the last ``flag`` in ``argv`` (the one that counts), or None when it is absent."""
    return next((piece.values for piece in reversed(pieces(argv)) if piece.flag == flag), None)


def flags_in(args: Iterable[str]) -> set[str]:
    """Every flag of a command line or an argument template."""
    return {piece.flag for piece in pieces(args) if piece.flag is not None}
