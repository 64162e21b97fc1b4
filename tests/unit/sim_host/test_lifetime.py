"""A host comes up serving, and nothing of it outlives its owner, however that ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddtune.sim import layout
from ddtune.sim.host import EmbeddedHost, HostError
from ddtune.sim.settings import Settings
from ddtune.sim.unitfile import read
from tests.unit.sim_host.manager import Manager, alive, until
from tests.unit.sim_host.served import Served, start


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    served = start(tmp_path)
    members = served.members()
    assert len(members) >= 12  # janitor, host, shim, engine, eight ranks
    yield served
    for pid in [served.process.pid, *members]:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    served.process.wait()


def _nothing_is_left(served: Served, members: list[int]) -> None:
    until(lambda: [pid for pid in members if alive(pid)], lambda left: not left)
    until(lambda: Path(served.found["root"]).exists(), lambda there: not there)
    assert not served.published.exists()


def _hostd(served: Served) -> int:
    wanted = [b"-m", b"ddtune.sim.hostd"]
    return next(
        pid for pid in served.members() if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:3] == wanted
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_serves_and_says_how_to_be_reached(host: Served) -> None:
    found = host.found
    assert stat.S_IMODE(host.published.stat().st_mode) == 0o600
    assert stat.S_IMODE(host.published.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(found["root"]).stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(found["identity"]).stat().st_mode) == 0o600
    assert (found["simulated"], found["clock_scale"], found["unit"]) == (True, 10.0, "sglang-k26.service")
    assert found["pid"] == host.process.pid
    assert Path(found["nvml_source"]).is_file()
    with urllib.request.urlopen(f"http://127.0.0.1:{found['api_port']}/health", timeout=5) as answer:
        assert answer.status == 200
    gpus = Path(found["root"]) / "run/sim/gpus.json"
    assert len(until(lambda: gpus.exists() and json.loads(gpus.read_text())["gpus"])) == 8


def test_only_the_first_start_was_warm(host: Served) -> None:
    props = Manager(Path(host.found["root"])).show(host.found["unit"])
    assert (props["DropInPaths"], props["NeedDaemonReload"]) == ("", "no")
    assert "DDTUNE_SIM_WARM" not in props["Environment"]
    assert "DDTUNE_SIM_WARM=1" in Path(f"/proc/{props['MainPID']}/environ").read_text().split("\0")


def test_rests(host: Served) -> None:
    """The host's own process, which serves systemd and sshd, does next to nothing while nobody asks."""
    owner = _hostd(host)
    before, began = _cpu_s(owner), time.monotonic()
    until(lambda: time.monotonic() - began > 2)
    assert (_cpu_s(owner) - before) / 2 < 0.05


def test_two_hosts_do_not_meet(host: Served, own: Served) -> None:
    for key in ("name", "port", "api_port", "root"):
        assert host.found[key] != own.found[key]
    assert own.process.stdin is not None
    members = own.members()
    own.process.stdin.close()
    assert own.process.wait(10) == 0
    _nothing_is_left(own, members)
    with urllib.request.urlopen(f"http://127.0.0.1:{host.found['api_port']}/health", timeout=5) as answer:
        assert answer.status == 200


def test_nothing_outlives_a_killed_owner(own: Served) -> None:
    root = Path(own.found["root"])
    guard = [str(root / "usr/bin/systemd-run"), "--unit=guard", "-p", "Restart=always", "/bin/sleep", "1000"]
    subprocess.run(guard, check=True, capture_output=True)
    members = own.members()
    own.process.kill()
    own.process.wait()
    _nothing_is_left(own, members)


@pytest.mark.parametrize("victim", ["janitor", "hostd"])
def test_nothing_outlives_a_killed_part(own: Served, victim: str) -> None:
    members = own.members()
    pid = members[0] if victim == "janitor" else _hostd(own)
    os.kill(pid, signal.SIGKILL)
    _nothing_is_left(own, [one for one in members if one != pid])


def test_a_host_that_cannot_come_up_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "to_json", lambda _: "{}")
    host = EmbeddedHost(tmp_path)
    with pytest.raises(HostError, match="said: KeyError: 'speed'"):
        asyncio.run(host.start())
    assert not host.root.exists()


def test_the_unit_file_says_what_is_meant(tmp_path: Path) -> None:
    root = tmp_path / "a folder 100%"
    layout.make(root, Settings(speed=5, engine_env=(("DDTUNE_SIM_SCENARIO", 'odd "$x" 5%'),)), 31999)
    config = read(layout.UNIT, [root / "etc/systemd/system", root / "run/systemd/system"])
    assert config is not None
    env = dict(config.environment)
    assert (env["DDTUNE_SIM_SPEED"], env["DDTUNE_SIM_SCENARIO"]) == ("5", 'odd "$x" 5%')
    assert env["DDTUNE_SIM_STATE"] == f"{root}/run/sim/gpus.json"
    assert env["DDTUNE_SIM_WARM"] == "1"
    assert config.cwd == f"{root}/root"
    assert "31999" in config.start[0].argv
    assert config.wanted


def test_settings_are_read_from_the_environment() -> None:
    env = {"DDTUNE_SIM_SPEED": "20", "DDTUNE_SIM_SCENARIO": "hang", "OTHER": "x"}
    settings = Settings.from_env(env)
    assert settings == Settings(20.0, 24.0, (("DDTUNE_SIM_SCENARIO", "hang"),))
    assert Settings.from_json(settings.to_json()) == settings
    for bad in ("fast", "0", "-1"):
        with pytest.raises(ValueError, match="DDTUNE_SIM_SPEED"):
            Settings.from_env({"DDTUNE_SIM_SPEED": bad})
