from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddtune.config import openssh, paths, resolve
from ddtune.config.errors import ConfigError
from ddtune.config.resolve import resolve_host


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own, on a machine that can resolve no name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DDTUNE_CONFIG", str(tmp_path / "config.toml"))
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    (tmp_path / "config.toml").write_text('[hosts.b300]\nssh = "gpu1"\nunit = "one.service"\n')
    (tmp_path / ".ssh" / "conf.d").mkdir(parents=True)
    (tmp_path / ".ssh" / "config").write_text(
        "Include conf.d/*\nHost gpu1 gpu2\n  HostName 192.0.2.1\nHost *\n  User me\n"
    )
    (tmp_path / ".ssh" / "conf.d" / "work").write_text('Match exec "false"\n  ProxyJump x\nhost=lab "quoted name"\n')

    def unresolved(*args: Any) -> Any:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(resolve.socket, "getaddrinfo", unresolved)
    monkeypatch.setattr(openssh, "renames", lambda name: False)
    return tmp_path


def test_the_configuration_comes_first(home: Path) -> None:
    host = resolve_host("b300")
    assert (host.name, host.ssh, host.unit) == ("b300", "gpu1", "one.service")
    assert resolve_host("b300:two").unit == "two.service"


@pytest.mark.parametrize("name", ["gpu1", "gpu2", "lab"])
def test_aliases_of_openssh(home: Path, name: str) -> None:
    host = resolve_host(name)
    assert (host.name, host.ssh, host.user, host.port) == (name, name, None, None)


def test_addresses(home: Path) -> None:
    host = resolve_host("me@10.0.0.1:2222:sglang")
    assert (host.name, host.ssh, host.user, host.port, host.unit) == (
        "me@10.0.0.1:2222",
        "10.0.0.1",
        "me",
        2222,
        "sglang.service",
    )
    assert resolve_host("b300.lab").ssh == "b300.lab"
    assert resolve_host("[::1]:22").ssh == "::1"


def test_an_unknown_name_is_refused_with_near_ones(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"no host is called 'b30' \(did you mean b300\?\)"):
        resolve_host("b30")


def test_where_nothing_is_near_the_names_that_there_are_are_offered(home: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_host("zzz")
    message = str(refused.value)
    assert (
        "ddtune's configuration has b300 and ~/.ssh/config has gpu1, gpu2, lab, quoted name; or write user@host:port"
        in message
    )
    (home / "config.toml").write_text("")
    many = " ".join(f"h{number:02}" for number in range(15))
    (home / ".ssh" / "config").write_text(f"Host {many}\n")
    with pytest.raises(ConfigError, match=r"; ~/.ssh/config has h00, .*, h09 and 5 more; or write user@host:port"):
        resolve_host("zzz")
    (home / ".ssh" / "config").unlink()
    with pytest.raises(ConfigError, match=r"name a configured host or write user@host:port, or try `demo`"):
        resolve_host("zzz")


def test_names_that_openssh_renames_or_dns_knows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssh, "renames", lambda name: name == "wild-7")
    assert resolve_host("wild-7").ssh == "wild-7"
    monkeypatch.setattr(resolve.socket, "getaddrinfo", lambda *args: [])
    assert resolve_host("short").ssh == "short"


def test_the_embedded_host(home: Path) -> None:
    folder = paths.runtime_dir() / "demo"
    folder.mkdir()
    descriptor = {
        "name": "demo-1",
        "host": "127.0.0.1",
        "nvml_source": "",
        "port": 4022,
        "user": "demo",
        "identity": "/x/key",
        "known_hosts": "/x/known",
        "root": "/x/root",
        "unit": "sglang-k26.service",
        "api_port": 30123,
        "clock_scale": 10,
        "pid": os.getpid(),
    }
    (folder / "demo-1.json").write_text(json.dumps(descriptor))
    host = resolve_host("demo-1")
    assert (host.ssh, host.port, host.root, host.api_port) == ("127.0.0.1", 4022, "/x/root", 30123)
    assert host.simulated
    assert host.write is None
    assert host.clock_scale == 10
    assert host.identity == Path("/x/key")

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (folder / "demo-2.json").write_text(json.dumps({**descriptor, "pid": gone.pid}))
    with pytest.raises(ConfigError, match="has ended"):
        resolve_host("demo-2")
    with pytest.raises(ConfigError, match="did you mean demo-1"):
        resolve_host("demo-11")


def test_private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "ddtune").mkdir(mode=0o755)
    assert paths.runtime_dir().stat().st_mode & 0o777 == 0o700
    (tmp_path / "ddtune").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ddtune").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        paths.runtime_dir()


def test_paths_and_models_cost_no_pydantic() -> None:
    code = (
        "import sys, ddtune.config.paths, ddtune.config.model, ddtune.config.resolve, ddtune.config.load;"
        "print([m for m in ('pydantic', 'asyncssh', 'textual') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
