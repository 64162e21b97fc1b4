"""A desk whose host is a recording: the screens see what was seen, and nobody can be asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import NoReturn

from ddtune.config.errors import ConfigError
from ddtune.config.model import HostConfig
from ddtune.live.player import Player, events
from ddtune.live.recording import Recording
from ddtune.profiles import store
from ddtune.profiles.envelope import shipped_envelope
from ddtune.tui.desk import Desk, DeskError
from ddtune.tui.past import Past
from ddtune.tui.view import Replay, View

SPEEDS = (0.25, 1.0, 4.0, 16.0, 64.0)
FRAME_S = 0.2
JUMP_S = 0.5


class ReplayDesk(Desk):
    """Plays a recording in the worker's loop, from ``start_s`` on."""

    def __init__(self, recording: Recording, *, speed: float = 1.0, playing: bool = True, start_s: float = 0.0) -> None:
        super().__init__(HostConfig(recording.host, recording.host, simulated=recording.simulated), write=False)
        self._past = Past(self._series)
        self._player = Player(recording, self._past.take)
        self._length_s = recording.length_s
        self._events = events(recording)
        self._speed, self._playing = speed, playing
        self._position_s = min(start_s, self._length_s)
        self._seen = self._picture()

    def start(self, changed: Callable[[], None]) -> None:
        """Begin to play; ``changed`` is told of each new moment."""
        with suppress(ConfigError):
            self.profiles = store.load_profiles()
            self._envelope = tuple(shipped_envelope())
        self._changed = changed
        self._worker.submit(self._play())

    def stop(self) -> None:
        """End the thread."""
        self._changed = lambda: None
        self._worker.close()

    def view(self) -> View:
        """This moment of the recording; ``now`` counts its seconds."""
        return self._seen

    def retry(self) -> None:
        """There is no link."""

    def unlock(self) -> None:
        """There is nothing to change."""

    def seek(self, position_s: float) -> Future[None]:
        """Go to a place."""

        async def go() -> None:
            self._go(position_s)

        return self._worker.submit(go())

    def move(self, seconds: float) -> None:
        """Go on or back by so much."""
        self.seek(self._position_s + seconds)

    def next_event(self, way: int) -> None:
        """Go to where the transaction or the link next, or last, came into another state."""
        here = self._position_s
        ahead = [one for one in self._events if one > here + JUMP_S]
        behind = [one for one in self._events if one < here - JUMP_S]
        place = (ahead[0] if ahead else self._length_s) if way > 0 else (behind[-1] if behind else 0.0)
        self.seek(place)

    def pause(self) -> None:
        """Stand still, or play on; from the end it plays from the begin."""

        # In the loop that plays: between the two it would find itself at the end, and stop.
        async def turn() -> None:
            self._playing = not self._playing
            self._go(0.0 if self._playing and self._position_s >= self._length_s else self._position_s)

        self._worker.submit(turn())

    def faster(self, steps: int) -> None:
        """Another of the speeds."""
        place = min(range(len(SPEEDS)), key=lambda one: abs(SPEEDS[one] - self._speed))
        self._speed = SPEEDS[max(0, min(len(SPEEDS) - 1, place + steps))]
        self.seek(self._position_s)

    async def _play(self) -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(FRAME_S)
            now = time.monotonic()
            if self._playing:
                place = min(self._length_s, self._position_s + (now - before) * self._speed)
                self._playing = place < self._length_s
                self._show(place)
            before = now

    def _go(self, position_s: float) -> None:
        self._show(min(max(0.0, position_s), self._length_s))

    def _show(self, position_s: float) -> None:
        self._position_s = position_s
        self._seen = self._picture()
        self._changed()

    def _picture(self) -> View:
        snapshot, boottime = self._player.at(self._position_s)
        self._past.moved(snapshot.at)
        return View(
            snapshot=snapshot,
            now=self._position_s,
            profiles=self.profiles,
            boottime=boottime,
            series=self._series,
            envelope=self._envelope,
            replay=Replay(self._position_s, self._length_s, self._speed, self._playing),
        )

    async def _opened(self) -> NoReturn:
        raise DeskError("this is a recording: there is no host to ask.")
