"""A recording of a crash and its rollback, and the same screens from it."""

from __future__ import annotations

import asyncio
import functools
import gzip
import time
from pathlib import Path

import pytest
from textual.pilot import Pilot

from ddtune.config.resolve import resolve_host
from ddtune.live.hub import Hub
from ddtune.live.player import Player, events
from ddtune.live.recording import BadRecording, Recorder, Recording, read
from ddtune.live.snapshot import Snapshot
from ddtune.live.worker import Worker
from ddtune.tui.desk import Desk
from ddtune.tui.replay import ReplayApp
from ddtune.tui.replay_desk import ReplayDesk
from ddtune.tui.screens.base import DeskScreen
from tests.tui import hands
from tests.tui.embedded import serving, shorter_gates
from tests.tui.hands import alive, shown
from tests.tui.svg import picture

pytestmark = pytest.mark.timeout(240)
LIMIT_S = 150.0
until = functools.partial(hands.until, limit_s=LIMIT_S)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshot]:
    """A file that saw a crash and its rollback, and what the hub saw last."""
    folder = tmp_path_factory.mktemp("recording")
    path = folder / "crash.ddtune"
    with pytest.MonkeyPatch.context() as patch, serving(40) as name, Worker() as worker:
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        shorter_gates()
        config = resolve_host(name)
        recorder = Recorder(path, config, time.time())
        hub = Hub(config, worker, tap=recorder.take)
        hub.start()
        desk = Desk(config, write=True)
        try:
            desk.start(lambda: None)
            desk.carry_out(desk.plan("switch", "b12", force=True).result(LIMIT_S))
            deadline = time.monotonic() + LIMIT_S
            while desk.running or not (hub.latest().txn or {}).get("settled"):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            desk.stop()
        hub.stop()
        last = hub.latest()
        recorder.close()
    return path, last


def test_the_picture_at_the_end_is_what_the_hub_saw(recorded: tuple[Path, Snapshot]) -> None:
    path, last = recorded
    found, _ = Player(read(path)).at(last.at - read(path).began)
    for name in ("gpus", "service", "txn", "incidents", "history", "log", "notes", "alarms", "xids", "link"):
        if name == "txn":
            assert {**found.txn, "canary": 0, "fatal_patterns": 0} == {**last.txn, "canary": 0, "fatal_patterns": 0}
        else:
            assert getattr(found, name) == getattr(last, name), name
    assert found.txn["state"] == "ROLLED_BACK"
    assert found.incidents[-1].cause == "illegal_memory_access"


async def _played(recording: Recording, places: list[float]) -> dict[float, list[str]]:
    """Live, log and history at each place, in the order in which they are asked for."""
    desk = ReplayDesk(recording, playing=False)
    app = ReplayApp(desk)
    pictures: dict[float, list[str]] = {}
    try:
        async with app.run_test(size=(80, 24)) as pilot:
            for place in places:
                await asyncio.wrap_future(desk.seek(place))
                app.screen.refresh_view()
                found = [await _settled(pilot)]
                for there, back in (("l", "escape"), ("H", "q")):
                    await pilot.press(there)
                    await app.workers.wait_for_complete()
                    found.append(await _settled(pilot))
                    await pilot.press(back)
                    await pilot.pause()
                assert pictures.setdefault(place, found) == found
    finally:
        desk.stop()
    return pictures


async def _settled(pilot: Pilot[None]) -> str:
    """The picture once the screen is there and painting it again changes nothing."""
    pictures: list[str] = []
    while len(pictures) < 2 or len(set(pictures[-2:])) > 1:
        screen = pilot.app.screen
        assert isinstance(screen, DeskScreen)
        screen.refresh_view()
        await pilot.pause(0.05)
        if screen._whole:
            pictures.append(picture(pilot.app))
    return pictures[-1]


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow, id="all")])
async def test_a_crash_and_its_rollback_replay_identically(recorded: tuple[Path, Snapshot], stride: int) -> None:
    recording = read(recorded[0])
    places = [*list(events(recording))[::stride], recording.length_s]
    print(f"{len(places)} places")
    first = await _played(recording, places)
    # Another run of the same file, and going backward in it.
    second = await _played(read(recorded[0]), places[::-1])
    for place in places:
        for before, after in zip(first[place], second[place], strict=True):
            assert after.splitlines() == before.splitlines(), place
    assert len({text for found in first.values() for text in found}) > len(places)


async def test_a_replay_is_moved_by_keys_and_changes_nothing(recorded: tuple[Path, Snapshot]) -> None:
    recording = read(recorded[0])
    desk = ReplayDesk(recording, speed=64.0)
    app = ReplayApp(desk)
    try:
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: not desk.view().replay.playing)
            assert "REPLAY" in shown(pilot)
            assert not {"switch", "roll_back", "unlock"} & alive(pilot)
            await pilot.press("N")
            await until(pilot, lambda: desk.view().replay.position_s < recording.length_s)
            # Slower first: at 64 times the speed it is at its end before the next key.
            await pilot.press(*["left_square_bracket"] * 3, "space")
            await until(pilot, lambda: desk.view().replay.speed == 1.0 and desk.view().replay.playing)
            await pilot.press("P", "enter")
            await until(pilot, lambda: "this is a recording" in shown(pilot))
    finally:
        await asyncio.to_thread(desk.stop)


def test_a_torn_file_is_read_as_far_as_it_goes(recorded: tuple[Path, Snapshot], tmp_path: Path) -> None:
    whole = recorded[0].read_bytes()
    torn = tmp_path / "torn"
    torn.write_bytes(whole[: len(whole) // 2])
    assert 0 < len(read(torn).entries) < len(read(recorded[0]).entries)
    for name, data in (("empty", b""), ("text", b"hello\n"), ("other", gzip.compress(b'{"kind": "x"}\n'))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadRecording, match="no recording"):
            read(tmp_path / name)
    with pytest.raises(BadRecording, match="No such file"):
        read(tmp_path / "absent")
