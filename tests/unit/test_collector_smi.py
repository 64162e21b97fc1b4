"""Which rows of nvidia-smi belong together, and what they say of a GPU that is lost."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddtune.gpu.model import GpuReading
from ddtune.gpu.reading import from_line
from ddtune.gpu.slots import keep
from ddtune.onhost import collect_smi
from ddtune.onhost.collect_smi import FIELDS, Smi, parse_row
from tests.unit.cases.given import Watch, eight

COMPLAINT = "Unable to determine the device handle for GPU0000:{bus:02X}:00.0: Unknown Error"
Asked = Callable[..., Smi]


def row(index: int, bus: int) -> str:
    return ", ".join([str(index), f"GPU-{bus - 0x1B}", f"00000000:{bus:02X}:00.0", "B300", *["1"] * (len(FIELDS) - 4)])


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made: list[Smi] = []

    def ask(body: str, count: int = 0) -> Smi:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/bash\n[[ $1 != dmon ]] || exit 1\n{body}\n")
        program.chmod(0o755)
        made.append(Smi(0.1, count))
        return made[-1]

    yield ask
    for smi in made:
        smi.close()


def rows(left: list[int], pause_s: float = 0.0) -> str:
    return "\n".join(f"echo '{row(place, 0x1B + one)}'; sleep {pause_s}" for place, one in enumerate(left))


@pytest.mark.parametrize("count", [0, 8])
def test_rows_that_come_slowly_are_one_look(asked: Asked, count: int) -> None:
    smi = asked(f"while :; do\n{rows(list(range(8)), 0.15)}\ndone", count)
    known: tuple[GpuReading, ...] = ()
    for _ in range(3):
        known = keep(known, from_line({"gpus": smi.sample()}))
        assert [(gpu.index, gpu.lost) for gpu in known] == [(index, False) for index in range(8)]


def test_a_gpu_that_comes_back_late_is_no_look_of_its_own(asked: Asked, tmp_path: Path) -> None:
    late = f"if [[ -e {tmp_path}/back ]]; then sleep 0.3; echo '{row(7, 0x22)}'; fi"
    smi = asked(f"while :; do\n{rows(list(range(7)))}\n{late}\nsleep 0.2\ndone", 7)
    assert len(smi.sample()) == 7
    (tmp_path / "back").touch()
    counts = [len(smi.sample()) for _ in range(4)]
    assert counts[-1] == 8
    assert set(counts) <= {7, 8}


def test_a_complaint_long_before_the_rows_loses_one_gpu(asked: Asked) -> None:
    left = [one for one in range(8) if one != 5]
    smi = asked(f"while :; do\necho '{COMPLAINT.format(bus=0x20)}' >&2\nsleep 0.4\n{rows(left)}\nsleep 0.2\ndone", 8)
    watch = Watch().gpus(eight())
    for _ in range(2):
        shown = watch.gpus(smi.sample(), via="nvidia-smi").shown.gpus
        assert [gpu.index for gpu in shown if gpu.lost] == [5]
        assert len(shown) == 8


@pytest.mark.parametrize("said", ["", rows([0, 1, 2])])
def test_of_gpus_that_were_not_reached_nothing_is_said(asked: Asked, said: str) -> None:
    smi = asked(f"echo '{COMPLAINT.format(bus=0x20)}'\n{said}\nexit 15", 8)
    line = smi.sample()
    present = [f"0000:{0x1B + index:02x}:00.0" for index in range(8)]
    for watch in (Watch().gpus(eight()), Watch()):
        watch.gpus(line, present, via="nvidia-smi")
        assert [gpu.lost for gpu in watch.shown.gpus] == [index == 5 for index in range(8)]
        assert [gpu.silent for gpu in watch.shown.gpus] == [index != 5 for index in range(8)]
        (alarm,) = watch.shown.alarms
        assert alarm.blocks
        assert alarm.text.startswith("0 of 8 GPUs answer: GPU 5 (")
        assert "is lost, and nothing is said of the other 7; " in alarm.text
    with pytest.raises(OSError, match="ended with 15: Unable to determine"):
        smi.sample()


def test_a_query_that_ends_within_a_look_loses_no_gpu(asked: Asked) -> None:
    smi = asked(f"{rows(list(range(8)))}\nsleep 0.3\n{rows([0, 1, 2])}\nexit 1", 8)
    assert len(smi.sample()) == 8
    with pytest.raises(OSError, match="ended with 1"):
        smi.sample()


def test_a_query_that_hangs_is_asked_to_end(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_smi, "_HUNG_S", 0.3)
    smi = asked(f"{rows([0])}\nexec sleep 600", 1)
    assert len(smi.sample()) == 1
    with pytest.raises(OSError, match="ended with -15: no answer for"):
        smi.sample()


@pytest.mark.parametrize("word", ["ERR!", "[GPU is lost]"])
def test_a_row_of_a_lost_gpu(word: str) -> None:
    keys = list(FIELDS)
    for start in ("5, GPU-5, 00000000:20:00.0, B300", ", ".join([word] * 4)):
        reading = parse_row(", ".join([start, *[word] * (len(keys) - 4)]), keys)
        assert reading
        assert reading["lost"] is True
        others = [gpu for gpu in eight(power_w=1.0) if gpu["index"] != 5]
        shown = Watch().gpus(eight(power_w=1.0)).gpus([*others, reading]).shown.gpus
        assert [gpu.lost for gpu in shown] == [index == 5 for index in range(8)]


@pytest.mark.parametrize("word", ["nan", "inf", "-Infinity", "1e999", "0x" + "f" * 400])
def test_what_is_not_finite_is_not_available(word: str) -> None:
    keys = list(FIELDS)
    reading = parse_row(", ".join(["0", "G", "P", "N", *[word] * (len(keys) - 4)]), keys)
    assert reading
    numbers = [value for value in reading.values() if isinstance(value, int | float)]
    assert all(math.isfinite(value) for value in numbers)
    assert reading["power_w"] is None
    assert parse_row(", ".join(["²", *["1"] * (len(keys) - 1)]), keys) is None
