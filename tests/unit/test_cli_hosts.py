from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ddtune.cli.group import ddtune as main
from tests.unit.host_server import Server, serve


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a configuration of our own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("DDTUNE_CONFIG", str(tmp_path / "ddtune" / "config.toml"))
    for name in ("VISUAL", "EDITOR", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    tmp_path.chmod(0o700)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host gpu1 lab\n  HostName 192.0.2.1\nHost *.wild\n")
    return tmp_path / "ddtune" / "config.toml"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A real SSH server in a thread: a command has an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    (tmp_path / "server").mkdir()
    context = serve(tmp_path / "server")
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def table(name: str, server: Server, **more: str) -> str:
    said = {"ssh": f"ops@127.0.0.1:{server.port}", "identity": str(server.identity)}
    said |= {"known_hosts": str(server.known_hosts)} | more
    return "\n".join([f"[hosts.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in said.items())]) + "\n"


def write(config: Path, text: str) -> None:
    config.parent.mkdir(exist_ok=True)
    config.write_text(text)


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["hosts", *args])


def answer(result: Result) -> dict[str, Any]:
    body = json.loads(result.stdout)
    assert body["proto"] == 1
    return dict(body)


def test_hosts_and_aliases_are_listed(config: Path) -> None:
    write(config, '[hosts.b300]\nssh = "ops@gpu1:2222"\nunit = "k26"\nprotected = true\n[hosts.lab]\n')
    text = run().output
    assert "b300             ops@gpu1:2222  k26.service  protected" in text
    assert "aliases of ~/.ssh/config: gpu1" in text
    body = answer(run("--json"))
    assert [(one["name"], one["ssh"], one["protected"]) for one in body["hosts"]] == [
        ("b300", "ops@gpu1:2222", True),
        ("lab", "lab", False),
    ]
    assert (body["aliases"], body["embedded"], body["config"]) == (["gpu1"], [], str(config))


def test_no_configuration_is_no_error(config: Path) -> None:
    result = run()
    assert result.exit_code == 0
    assert f"No host has a table in {config}" in result.output
    assert "gpu1, lab" in result.output
    assert answer(run("--json"))["hosts"] == []


def test_a_broken_configuration_is_one_sentence(config: Path) -> None:
    write(config, "[hosts.b300]\nport = 'x'\n")
    result = run()
    assert result.exit_code == 2
    assert "hosts.b300.port" in result.stderr
    assert "mend it with `ddtune hosts edit`" in result.stderr
    assert "Traceback" not in result.output


def test_a_login_is_tried(config: Path, server: Server) -> None:
    write(config, table("box", server, python="/usr/bin/python3"))
    body = answer(run("test", "--json"))
    (host,) = body["hosts"]
    assert body["ok"]
    assert (host["name"], host["ok"], host["host_key"], host["error"]) == ("box", True, "known", None)
    assert 0 < host["rtt_ms"] < 10_000
    assert host["python"].startswith("3.")
    result = run("test", "box")
    assert result.exit_code == 0
    assert "host key known, Python 3." in result.output
    assert answer(run("--json", "test"))["ok"]


def test_each_failure_is_told_and_ends_with_8(config: Path, server: Server, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    changed = (
        f"[127.0.0.1]:{server.port} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ\n"
    )
    (tmp_path / "other").write_text(changed)
    text = table("fine", server) + table("new", server, known_hosts=str(tmp_path / "empty"))
    text += table("moved", server, known_hosts=str(tmp_path / "other"))
    text += table("bare", server, python="/nonexistent/python3") + table("old", server, python=str(tmp_path / "old"))
    (tmp_path / "old").write_text("#!/bin/sh\necho 3.6.8\n")
    (tmp_path / "old").chmod(0o755)
    write(config, text)
    result = run("test", "--json")
    assert result.exit_code == 8
    body = answer(result)
    assert not body["ok"]
    found = {one["name"]: (one["host_key"], (one["error"] or {}).get("cause")) for one in body["hosts"]}
    assert found == {
        "fine": ("known", None),
        "new": ("unknown", "unknown_host_key"),
        "moved": ("changed", "changed_host_key"),
        "bare": ("known", "no_python"),
        "old": ("known", "old_python"),
    }
    assert "3.6.8" in run("test", "old").output
    assert run("test", "fine", "new").exit_code == 8
    assert run("test", "fine").exit_code == 0


def test_nothing_to_test_and_unknown_names_are_usage(config: Path) -> None:
    assert run("test").exit_code == 2
    assert "hosts edit" in run("test").stderr
    write(config, "[hosts.b300]\n")
    unknown = run("test", "b30")
    assert unknown.exit_code == 2
    assert "did you mean b300?" in unknown.stderr


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, variable: str = "EDITOR") -> None:
    path = tmp_path / f"{variable.lower()} one"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv(variable, f"'{path}' --wait")


def test_edit_begins_a_private_file_and_checks_it(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, "exit 7")
    editor(tmp_path, monkeypatch, 'test "$1" = --wait && echo typed && echo "[hosts.b300]" >> "$2"', "VISUAL")
    result = run("edit", "--json")
    assert result.exit_code == 0, result.stderr
    body = answer(result)
    assert (body["begun"], body["hosts"]) == (True, ["b300"])
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.read_text().startswith("# The hosts of ddtune.")
    monkeypatch.setenv("VISUAL", "true")
    assert answer(run("edit", "--json"))["begun"] is False
    assert f"{config} is right; its hosts: b300" in run("edit").output


def test_edit_says_what_is_wrong_and_keeps_the_file(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, 'printf "[hosts.b300]\\nprot = 1\\n" > "$2"')
    result = run("edit")
    assert result.exit_code == 2
    assert "prot is not known (did you mean port" in result.stderr
    assert "prot = 1" in config.read_text()
    editor(tmp_path, monkeypatch, "exit 3")
    result = run("edit")
    assert result.exit_code == 2
    assert "ended with status 3" in result.stderr


def test_without_an_editor_the_file_is_named(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "no-such-editor")
    result = run("edit")
    assert result.exit_code == 2
    assert f"there is no editor 'no-such-editor': set $EDITOR, or edit {config} yourself" in result.stderr
    assert not config.exists()
