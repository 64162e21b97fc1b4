"""What the stand-ins' command lines share: options, unit names, and where output goes."""

from __future__ import annotations

import asyncio


class Answer:
    """Where a stand-in's output goes."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def out(self, data: str | bytes, kind: bytes = b"o") -> None:
        raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        if raw:
            self._writer.write(kind + len(raw).to_bytes(4, "big") + raw)
            await self._writer.drain()

    async def err(self, data: str) -> None:
        await self.out(data, b"e")


def options(argv: list[str], valued: dict[str, str], *, posix: bool = False) -> tuple[dict[str, list[str]], list[str]]:
    """Options and what else stands on a command line, up to ``--``; with ``posix``, up to the first other word."""
    found: dict[str, list[str]] = {}
    rest: list[str] = []
    queue = list(argv)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.partition("=")
        short = word[:2] if not word.startswith("--") else ""
        if word == "--":
            return found, rest + queue
        if not word.startswith("-"):
            if posix:
                return found, [word, *queue]
            rest.append(word)
        elif name in valued:
            found.setdefault(valued[name], []).append(value if equals else queue.pop(0) if queue else "")
        elif short in valued and len(word) > 2:
            found.setdefault(valued[short], []).append(word[2:])
        else:
            found.setdefault(name, []).append(value)
    return found, rest


def unit_name(name: str) -> str:
    """A unit's whole name; a service where no kind is said."""
    return name if "." in name else f"{name}.service"
