"""Notices to chat, mail, pager or webhook through apprise: each once, redacted, also across restarts of the watch."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from ddtune.config.errors import ConfigError
from ddtune.config.paths import replace_text
from ddtune.engine.log import sanitise
from ddtune.onhost.redact import redact_text
from ddtune.onhost.scrub import Scrubber
from ddtune.rollout.sights import Notice

KEPT = 2000
TITLE, BODY = 200, 2000


def addresses(path: Path) -> list[str]:
    """The addresses in ``path``, one a line, ``#`` for a comment; none where there is no file.

    They hold passwords and tokens, so a file that others may read is refused. Raises ConfigError.
    """
    try:
        status = path.stat()
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(f"{path} holds passwords and others may read it: chmod 600 {path}")
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def kind(address: str) -> str:
    """What an address is of, without anything that is secret in it."""
    return address.partition("://")[0] if "://" in address else "unknown"


def clean(notice: Notice) -> Notice:
    """``notice`` without keys, users' requests, control characters and escapes, at a length that a pager takes."""
    scrubber = Scrubber(())

    def short(text: str, limit: int) -> str:
        return "\n".join(sanitise(scrubber.text(redact_text(line))) for line in text.splitlines())[:limit]

    return Notice(notice.key, notice.kind, short(notice.title, TITLE), short(notice.body, BODY))


class Told:
    """The keys of what was told of one host, kept in ``path``. ``fresh`` when nothing was kept yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._keys = dict.fromkeys(str(key) for key in json.loads(path.read_text(encoding="utf-8")))
            self.fresh = False
        except (OSError, ValueError, TypeError):
            self._keys = {}
            self.fresh = True

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, keys: Sequence[str]) -> None:
        """Keep ``keys`` before they are told: twice is worse than, after a crash at this very moment, not at all."""
        self._keys.update(dict.fromkeys(keys))
        kept = list(self._keys)[-KEPT:]
        self._keys = dict.fromkeys(kept)
        replace_text(self._path, json.dumps(kept))
        self.fresh = False


class Notifier:
    """Tells each notice once; ``say`` hears what was told and what could not be, never an address."""

    def __init__(self, to: Sequence[str], told: Told, say: Callable[[str], None], *, dry: bool = False) -> None:
        self._to = tuple(to)
        self._told = told
        self._say = say
        self._dry = dry

    def known(self, notices: Sequence[Notice]) -> None:
        """What was there before the first watch is nobody's news."""
        self._told.add([notice.key for notice in notices])

    @property
    def fresh(self) -> bool:
        """Whether nothing was ever told of this host."""
        return self._told.fresh

    async def tell(self, notices: Sequence[Notice]) -> int:
        """Send those that were not told yet; how many."""
        new = [clean(notice) for notice in notices if notice.key not in self._told]
        if new:
            self._told.add([notice.key for notice in new])
        for notice in new:
            self._say(f"{notice.title}: {' '.join(notice.body.split())}")
            await self._send(notice)
        return len(new)

    async def _send(self, notice: Notice) -> None:
        if self._dry:
            self._say(f"dry run: would tell {', '.join(map(kind, self._to)) or 'nobody: no address is configured'}")
            return
        results = await asyncio.gather(*(asyncio.to_thread(_send, address, notice) for address in self._to))
        for address, sent in zip(self._to, results, strict=True):
            if not sent:
                self._say(f"a {kind(address)} notification could not be sent")


def _send(address: str, notice: Notice) -> bool:
    import logging

    import apprise

    # Its own log names the address.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    one = apprise.Apprise()
    level = apprise.NotifyType.FAILURE if notice.kind == "incident" else apprise.NotifyType.INFO
    return bool(
        one.add(address)
        and one.notify(title=notice.title, body=notice.body, notify_type=level, body_format=apprise.NotifyFormat.TEXT)
    )
