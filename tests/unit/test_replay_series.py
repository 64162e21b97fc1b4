"""The charts of a recording are the same however its place was reached."""

from __future__ import annotations

from ddtune.live.series import WINDOWS_S, Series
from ddtune.tui.past import Past
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
