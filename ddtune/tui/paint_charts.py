"""The four charts: what each takes from the series, and its range. Pure."""

from __future__ import annotations

import math

from textual.content import Content

from ddtune.live.series import Window
from ddtune.tui import plot, words
from ddtune.tui.plot import Level, Plot, Trace
from ddtune.tui.view import View

LEAST_ACCEPT = 6.0
LEAST_RUNNING = 4.0
LEAST_RATE = 100.0


def power(view: View, window: Window, width: int, height: int) -> list[Content]:
    """All GPUs under the limit; the one that draws least stands out where it stands alone."""
    gpus = view.snapshot.gpus
    limits = [gpu.power_limit_w for gpu in gpus if gpu.power_limit_w is not None]
    drawn = {f"gpu{gpu.index}": gpu.power_w for gpu in gpus if gpu.power_w is not None and not gpu.lost}
    channels = sorted(name for name in window.mean if name.startswith("gpu"))
    least = min(drawn, key=lambda name: drawn[name], default=None)
    order = [name for name in channels if name != least] + ([least] if least in channels else [])
    values = [value for name in channels for value in window.mean[name] if value is not None]
    top = max(limits) if limits else plot.ceiling(values, LEAST_RATE)
    traces = tuple(
        Trace(window.mean[name], words.WARN if name == least else words.GOOD) for name in order if name is not None
    )
    level = Level(top) if limits else None
    now = f"{words.number(min(drawn.values()))}–{words.number(max(drawn.values()))} W" if drawn else words.NONE
    return plot.lines(Plot(top, traces, level, now), window, width, height)


def tokens(view: View, window: Window, width: int, height: int) -> list[Content]:
    """Tokens a second."""
    values = window.mean.get("tokens_per_s", ())
    trace = Trace(values, words.NOTE, filled=True)
    shown = Plot(plot.ceiling(values, LEAST_RATE), (trace,), now=words.number(view.snapshot.service.tokens_per_s))
    return plot.lines(shown, window, width, height)


def accept(view: View, window: Window, width: int, height: int) -> list[Content]:
    """The accept length beside what the profile expects of it."""
    values = window.mean.get("accept_length", ())
    expected = view.expected_accept
    most = max((value for value in values if value is not None), default=0.0)
    top = max(LEAST_ACCEPT, math.ceil(1.2 * max(most, expected or 0.0)))
    level = Level(expected) if expected else None
    trace = Trace(values, words.NOTE, low=window.low.get("accept_length"), high=window.high.get("accept_length"))
    now = words.number(view.snapshot.service.accept_length, 2)
    return plot.lines(Plot(top, (trace,), level, now, digits=2), window, width, height)


def running(view: View, window: Window, width: int, height: int) -> list[Content]:
    """Requests that run, and over them those that wait."""
    service = view.snapshot.service
    run, queued = window.mean.get("running", ()), window.mean.get("queued", ())
    most = service.max_running
    top = plot.ceiling((*run, *queued), LEAST_RUNNING)
    level = Level(float(most)) if most and most <= top else None
    traces = (Trace(run, words.NOTE, filled=True), Trace(queued, words.WARN))
    now = f"{words.number(service.running)}, {words.number(service.queued)} queued"
    return plot.lines(Plot(top, traces, level, now), window, width, height)


def trends(view: View, window: Window, width: int, height: int) -> list[Content]:
    """Two lines for a screen without room for charts: tokens a second and the accept length."""
    del height
    rate, length = window.mean.get("tokens_per_s", ()), window.mean.get("accept_length", ())
    columns = max(4, (width - 30) // 2)
    return [
        words.line(
            (" tok/s ", words.MUTED),
            (plot.trend(rate, window, plot.ceiling(rate, LEAST_RATE), columns), words.NOTE),
            ("  accept ", words.MUTED),
            (plot.trend(length, window, max(LEAST_ACCEPT, 1.2 * (view.expected_accept or 0.0)), columns), words.NOTE),
            (f"  {window.length_s // 60} min", words.MUTED),
        )
    ]
