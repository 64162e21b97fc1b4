"""A command of the user's own in the place of the simulated engine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ddtune.cli.demo import demo
from ddtune.sim import bare, kernel
from ddtune.sim.host import EmbeddedHost
from ddtune.sim.real import RealEngine
from ddtune.sim.settings import Settings

ROOT = bare.PACKAGE_PARENT
ODD = {"BASH_FUNC_which%%": "() { :; }", "LINES": "one\ntwo"}
COMMAND = (
    f"PYTHONPATH={ROOT}/ddtune/sim/standin:{ROOT} DDTUNE_SIM_SPEED=200 'WORDS=two words' {sys.executable} "
    "-m sglang.launch_server --model-path /models/own --port 9 --host 127.0.0.1 --enable-metrics"
)


def test_a_command_is_read_as_a_shell_reads_it() -> None:
    engine = RealEngine.parse(
        COMMAND, {"PATH": "/usr/bin:/bin", "PYTHONPATH": "ours", "SSH_TTY": "x", "HOME": "/root"} | ODD
    )
    env = dict(engine.environment)
    assert engine.argv[:3] == (sys.executable, "-m", "sglang.launch_server")
    assert (env["WORDS"], env["HOME"], env["PYTHONPATH"]) == (
        "two words",
        "/root",
        f"{ROOT}/ddtune/sim/standin:{ROOT}",
    )
    assert not {"SSH_TTY", *ODD} & set(env)
    words = engine.on_port(31999)
    assert (words.count("--port"), words[-2:]) == (1, ("--port", "31999"))


@pytest.mark.parametrize("command", ["", "A=1", "no-such-program-here --port 1", "'open"])
def test_a_command_that_cannot_be_run_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="the engine's"):
        RealEngine.parse(command, {"PATH": "/usr/bin:/bin"})


def test_settings_travel_whole() -> None:
    one = Settings(real=RealEngine.parse(COMMAND, {"PATH": "/usr/bin:/bin"}), real_gpus=True)
    assert Settings.from_json(one.to_json()) == one
    assert (one.simulated, one.clock_scale) == (False, 1.0)
    assert Settings.from_json(Settings().to_json()).simulated


def test_it_runs_as_the_hosts_service(tmp_path: Path) -> None:
    async def check() -> None:
        settings = Settings(real=RealEngine.parse(COMMAND, {"PATH": "/usr/bin:/bin"}))
        async with EmbeddedHost(tmp_path, settings) as host:
            assert host.descriptor is not None
            assert (host.descriptor.unit, host.descriptor.clock_scale) == ("sglang.service", 1.0)
            show = [f"{host.root}/usr/bin/systemctl", "show", "-P", "MainPID", host.descriptor.unit]
            pid = int((await host.exec(show))[1])
            argv, env = (_words(pid, name) for name in ("cmdline", "environ"))
            assert argv[-2:] == [b"--port", str(host.api_port).encode()]
            assert b"/models/own" in argv
            assert b"WORDS=two words" in env

    asyncio.run(check())


def _words(pid: int, name: str) -> list[bytes]:
    return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")[:-1]


def test_the_kernels_own_record_is_read() -> None:
    record = "3,812,65533111,-;NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=python3, Ch 8\n SUBSYSTEM=pci\n"
    assert kernel.kmsg(record) == ("NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=python3, Ch 8", 3)


def test_a_real_engine_needs_serve() -> None:
    assert CliRunner().invoke(demo, ["--engine", "sleep 1"]).exit_code == 2
