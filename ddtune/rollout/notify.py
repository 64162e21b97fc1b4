"""Notices to chat, mail, pager or webhook through apprise: each once, redacted, also across restarts of the watch."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ddtune.config.errors import ConfigError
from ddtune.config.paths import replace_text
from ddtune.engine.log import sanitise
from ddtune.onhost.redact import redact_text
from ddtune.onhost.scrub import Scrubber
from ddtune.rollout.sights import Notice

# What chats make a call to everybody of, as in Slack's <!channel> and <@U1> and in Discord's @everyone.
_CALL = re.compile(r"@(?=everyone\b|here\b|channel\b|all\b)|<(?=[!@#])", re.IGNORECASE)
_BREAK = "\u2060"
KEPT = 2000
TITLE, BODY = 200, 2000
TRIES = 9
"""How often a notice is sent to an address that does not take it: with the waits between, for a good two hours."""
FIRST_WAIT_S, MOST_WAIT_S = 30.0, 3600.0
SEND_S = 30.0
"""Seconds for which an address is waited for: a receiver that hangs must not hold up the watch."""
WAITING = 100
"""Notices that wait for another try at most; the oldest is given up."""


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


def leave(code: int) -> NoReturn:
    """End this process with ``code``: apprise sends from a pool of its own, and the interpreter would wait for the
    receiver at which one of its threads hangs.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def clean(notice: Notice) -> Notice:
    """``notice`` without keys, users' requests, control characters, escapes and calls to a whole chat, at a length
    that a pager takes.
    """
    scrubber = Scrubber(())

    def short(text: str, limit: int) -> str:
        lines = (sanitise(scrubber.text(redact_text(line))) for line in text.splitlines())
        return _CALL.sub(f"\\g<0>{_BREAK}", "\n".join(lines))[:limit]

    # A title is one line: of a mail it is a header.
    return Notice(notice.key, notice.kind, short(" ".join(notice.title.splitlines()), TITLE), short(notice.body, BODY))


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
        """Keep ``keys`` once they are told: after a crash at this very moment twice is better than not at all."""
        self._keys.update(dict.fromkeys(keys))
        kept = list(self._keys)[-KEPT:]
        self._keys = dict.fromkeys(kept)
        self.fresh = False
        replace_text(self._path, json.dumps(kept))


@dataclass
class _Waiting:
    """A notice that the addresses ``to`` have not taken in ``tries`` tries; the next is ``due`` on the clock."""

    notice: Notice
    to: tuple[str, ...]
    tries: int
    due: float


class Notifier:
    """Tells each notice once; ``say`` hears what was told and what could not be, never an address."""

    def __init__(
        self,
        to: Sequence[str],
        told: Told,
        say: Callable[[str], None],
        *,
        dry: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._to = tuple(to)
        self._told = told
        self._say = say
        self.dry = dry
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}
        self._sending = asyncio.Lock()
        # Those that still have not answered when their time was over.
        self._hung: set[str] = set()
        self._unkept = ""

    def known(self, notices: Sequence[Notice]) -> None:
        """What was there before the first watch is nobody's news."""
        self._keep([notice.key for notice in notices])

    def is_told(self, notice: Notice) -> bool:
        """Whether it was told, or is on its way."""
        return notice.key in self._told or notice.key in self._waiting

    @property
    def fresh(self) -> bool:
        """Whether nothing was ever told of this host."""
        return self._told.fresh

    @property
    def due(self) -> bool:
        """Whether there is anything to send now."""
        return any(not one.tries or one.due <= self._clock() for one in self._waiting.values())

    async def tell(self, notices: Sequence[Notice]) -> int:
        """:meth:`take` and :meth:`send`."""
        new = self.take(notices)
        await self.send()
        return new

    def take(self, notices: Sequence[Notice]) -> int:
        """Say those that were not told yet, and have them wait for :meth:`send`; how many they are."""
        new = [clean(one) for one in {one.key: one for one in notices}.values() if not self.is_told(one)]
        for notice in new:
            self._say(f"{notice.title}: {' '.join(notice.body.split())}")
            if self.dry:
                self._say(f"dry run: would tell {', '.join(map(kind, self._to)) or 'nobody: no address is configured'}")
            self._waiting[notice.key] = _Waiting(notice, () if self.dry else self._to, 0, 0.0)
        return len(new)

    async def send(self) -> None:
        """Send what is new, and one that is due for another try; one call at a time."""
        async with self._sending:
            # One at a time: who takes nothing must not hold up what is new for as long as many wait.
            again = [one for one in self._waiting.values() if one.tries and one.due <= self._clock()][:1]
            for one in [*again, *(one for one in self._waiting.values() if not one.tries)]:
                await self._try(one)

    async def _try(self, one: _Waiting) -> None:
        """Send to those who have not taken it. What fails waits twice as long each time, and is given up in the end."""
        results = await asyncio.gather(*(self._reach(address, one) for address in one.to))
        one.to = tuple(address for address, sent in zip(one.to, results, strict=True) if not sent)
        one.due = self._clock() + min(FIRST_WAIT_S * 2**one.tries, MOST_WAIT_S)
        one.tries += 1
        for address in one.to:
            then = "given up" if one.tries >= TRIES else f"again in {one.due - self._clock():.0f} s"
            self._say(f"a {kind(address)} notification could not be sent: {then}")
        if not one.to or one.tries >= TRIES:
            self._over(one)
        while len(tried := [each for each in self._waiting.values() if each.tries]) > WAITING:
            self._say(f"given up, as too many wait: {tried[0].notice.title}")
            self._over(tried[0])

    async def _reach(self, address: str, one: _Waiting) -> bool:
        """Whether ``address`` took it, in its time. A thread of its own: a pool would wait for it at the end."""
        if address in self._hung:
            return False
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def heard(sent: bool) -> None:
            self._hung.discard(address)
            if not answer.done():
                answer.set_result(sent)
            elif sent:
                # It took its time, and has it.
                one.to = tuple(other for other in one.to if other != address)

        def work() -> None:
            sent = False
            try:
                sent = _send(address, one.notice)
            finally:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(heard, sent)

        threading.Thread(target=work, daemon=True, name="ddtune-notify").start()
        try:
            async with asyncio.timeout(SEND_S):
                return await answer
        except TimeoutError:
            self._hung.add(address)
            return False

    def _over(self, one: _Waiting) -> None:
        self._waiting.pop(one.notice.key, None)
        self._keep([one.notice.key])

    def _keep(self, keys: Sequence[str]) -> None:
        # A full disk of this machine is no reason to watch nothing.
        try:
            self._told.add(keys)
        except OSError as error:
            why = f"what was told cannot be kept, and the next watch may tell it again: {error.strerror or error}"
            if why != self._unkept:
                self._say(why)
            self._unkept = why


def _send(address: str, notice: Notice) -> bool:
    import logging

    import apprise

    # Its own log names the address.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    asset = apprise.AppriseAsset()
    # A redirect turns a POST into a GET, whose answer would pass for a receipt.
    asset.http_redirects = False
    one = apprise.Apprise(asset=asset)
    level = apprise.NotifyType.FAILURE if notice.kind == "incident" else apprise.NotifyType.INFO
    return bool(
        one.add(address)
        and one.notify(title=notice.title, body=notice.body, notify_type=level, body_format=apprise.NotifyFormat.TEXT)
    )
