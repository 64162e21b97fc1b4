"""The charts of a recording are the same however its place was reached."""

from __future__ import annotations

import pytest

from ddtune.live.player import Player
from ddtune.live.recording import Entry, Recording
from ddtune.live.series import WINDOWS_S, Series, Window
from ddtune.tui.past import Past
from ddtune.tui.replay_desk import ReplayDesk
from tests.unit.test_live_series import BEGAN, moment


def test_going_back_shows_what_was_seen_there_and_nothing_of_later() -> None:
    series = Series()
    past = Past(series)
    for second in range(200):
        past.take(moment(second, watts=400.0 + second))
    there = {length: series.window(length, BEGAN + 199) for length in WINDOWS_S}
    past.moved(BEGAN + 50)
    assert series.window(60, BEGAN + 50).mean["gpu0"][-1] == 450.0
    assert max(one for one in series.window(300, BEGAN + 199).mean["gpu0"] if one is not None) == 450.0
    for second in range(40, 200):
        past.take(moment(second, watts=400.0 + second))
    assert {length: series.window(length, BEGAN + 199) for length in WINDOWS_S} == there


def recording(seconds: int) -> Recording:
    """A host whose GPU draws a watt more each second."""

    def entry(second: int) -> Entry:
        gpu = {"index": 0, "uuid": "GPU-0", "power_w": 400.0 + second}
        return Entry(BEGAN + second, {"t": "gpus", "via": "nvml", "at": BEGAN + second, "gpus": [gpu]})

    return Recording("b300", BEGAN, tuple(map(entry, range(seconds))))


def drawn(desk: ReplayDesk, place: float) -> dict[int, Window]:
    desk.seek(place).result(10)
    view = desk.view()
    return {length: view.series.window(length, view.snapshot.at) for length in WINDOWS_S}


def test_a_replay_draws_the_same_at_a_place_and_reads_each_line_once_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    at = Player.at
    monkeypatch.setattr(Player, "at", lambda self, place: asked.append(place) or at(self, place))
    desk, other = (ReplayDesk(recording(600), playing=False) for _ in range(2))
    try:
        first = drawn(other, 200.0)
        assert first[60].mean["gpu0"][-1] == 600.0
        drawn(desk, 599.0)
        asked.clear()
        assert drawn(desk, 200.0) == first
        assert drawn(desk, 400.0) != first
        assert drawn(desk, 200.0) == first
        assert asked == [200.0, 400.0, 200.0]
    finally:
        desk.stop()
        other.stop()
