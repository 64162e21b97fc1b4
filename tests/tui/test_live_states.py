"""The live screen on a real embedded host that withholds something, and its numbers beside those of ``status``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from ddtune.config.model import HostConfig
from ddtune.live.status import status_json
from ddtune.tui import paint_gpus, words
from tests.tui import hands
from tests.tui.hands import shown, until

pytestmark = pytest.mark.timeout(120)


opened = partial(hands.opened, write=False, size=(160, 48))


@contextmanager
def withheld(host: HostConfig, **what: object) -> Iterator[None]:
    path = Path(host.root) / "run/sim/withheld.json"
    path.write_text(json.dumps(what))
    try:
        yield
    finally:
        path.unlink()


def line(pilot: Pilot[None], beginning: str) -> str:
    rows = (row.strip("│ ") for row in shown(pilot).splitlines())
    return next((row for row in rows if row.startswith(beginning)), "")


async def test_the_numbers_on_screen_are_those_of_status(host: HostConfig) -> None:
    async with opened(host) as pilot:
        desk = pilot.app.desk
        await until(pilot, lambda: desk.view().snapshot.service.ttft_p50_s is not None)
        await until(pilot, lambda: all(gpu.dram_util is not None for gpu in desk.view().snapshot.gpus))
        await pilot.press("p")
        await pilot.pause()
        told = status_json(pilot.app.screen._frozen.snapshot)
        for gpu in told["gpus"]:
            numbers = line(pilot, f"{gpu['index']}  ").split("│")[0].split()
            wanted = [gpu[name] for name in ("power_w", "util", "dram_util", "tensor_util")]
            assert numbers[2:6] == [words.number(one) for one in wanted]
            assert f"{gpu['sm_clock_mhz'] / 1000:.2f}" in numbers
            assert str(round(gpu["temperature_c"])) in numbers
        service, text = told["service"], shown(pilot)
        assert f"{words.number(told['power_w'])} W   {told['joules_per_token']:.2f} J/token" in text
        assert f"{words.number(service['tokens_per_s'])} tok/s" in text
        assert f"accept {service['accept_length']:.2f} of 4.48" in text
        assert f"running {service['running']} of {service['max_running']}   queued {service['queued']}" in text
        assert f"bound by {told['bound']['label']}  {told['bound']['reason']}" in text
        assert f"ttft p50 {1000 * service['ttft_p50_s']:.0f} ms" in text
        assert f"graphs {100 * service['graph_share']:.0f} %" in text
        least = min(told["gpus"], key=lambda gpu: gpu["power_w"])
        assert paint_gpus.LEAST in line(pilot, f"{least['index']}  ")


async def test_a_lost_gpu_keeps_its_row_and_is_loud(host: HostConfig) -> None:
    async with opened(host) as pilot:
        await until(pilot, lambda: "least" in shown(pilot))
        with withheld(host, lost=[5]):
            await until(pilot, lambda: "GPU LOST" in line(pilot, "5  "))
            assert line(pilot, "6  ").split()[2].isdigit()
            await until(pilot, lambda: "7 of 8 GPUs answer" in shown(pilot).splitlines()[1])
            assert "by 7 of 8" in line(pilot, "Σ")
        await until(pilot, lambda: "GPU LOST" not in shown(pilot))


async def test_without_gpm_nothing_is_said_of_what_bounds_the_run(host: HostConfig) -> None:
    with withheld(host, gpm=False):
        async with opened(host) as pilot:
            await until(pilot, lambda: "bound by unknown  no GPM counters" in shown(pilot))
            numbers = line(pilot, "0  ").split()
            assert numbers[4:6] == [words.NONE, words.NONE]


async def test_without_metrics_the_log_speaks_and_is_named(host: HostConfig) -> None:
    with withheld(host, metrics=False):
        async with opened(host) as pilot:
            await until(pilot, lambda: "by its log" in shown(pilot))
            assert f"ttft p50 {words.NONE} p95 {words.NONE}" in shown(pilot)


async def test_without_permission_the_log_says_so_and_the_rest_lives(host: HostConfig) -> None:
    with withheld(host, journal=False):
        async with opened(host) as pilot:
            await until(pilot, lambda: "no permission to read the journal" in shown(pilot))
            await until(pilot, lambda: "SERVING" in shown(pilot) and "least" in shown(pilot))
