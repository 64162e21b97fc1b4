from __future__ import annotations

from pathlib import Path

import pytest

from ddtune.config.errors import ConfigError
from ddtune.config.load import load_config, load_screen
from ddtune.config.model import HostConfig, Limits, ScreenConfig


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_reads_every_field(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [hosts.b300]
        ssh = "root@b300.lab:2222"
        unit = "sglang-k26"
        api_port = 30001
        api_key_file = "/etc/sglang/api-key"
        traffic = "held"
        protected = true
        confirm_login = "same"
        [hosts.b300.limits]
        drain_s = 5
        [hosts.other]
        """,
    )
    hosts = load_config(path)
    assert hosts["b300"] == HostConfig(
        name="b300",
        ssh="b300.lab",
        user="root",
        port=2222,
        unit="sglang-k26.service",
        api_port=30001,
        api_key_file="/etc/sglang/api-key",
        traffic="held",
        protected=True,
        confirm_login="same",
        limits=Limits(drain_s=5),
    )
    assert hosts["other"] == HostConfig(name="other", ssh="other")


def test_says_all_problems_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [hosts.b300]
        trafic = "held"
        api_port = 99999
        api_key_file = "key"
        [hosts.b300.limits]
        lease = 3
        lease_s = 3
        """,
    )
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    message = str(refused.value)
    assert str(path) in message
    assert "\n" not in message
    assert "hosts.b300.trafic is not known (did you mean traffic?)" in message
    assert "hosts.b300.limits.lease is not known (did you mean lease_s" in message
    for part in ("api_port", "api_key_file: must be an absolute path", "limits.lease_s"):
        assert part in message


@pytest.mark.parametrize("name", ["demo", "demo-1", "-x", "a:b", "me@a", "a b"])
def test_refuses_names_that_mean_something_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        load_config(write(tmp_path, f'[hosts."{name}"]\nssh = "x"\n'))


@pytest.mark.parametrize("user", ["-oProxyCommand=x", "a b", "$(id)", "a;b", ""])
def test_no_user_is_an_option_or_shell(tmp_path: Path, user: str) -> None:
    with pytest.raises(ConfigError, match=r"hosts\.x\.user"):
        load_config(write(tmp_path, f'[hosts.x]\nuser = "{user}"'))


def test_a_lease_outlives_a_lost_renewal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="renew_s"):
        load_config(write(tmp_path, "[hosts.a.limits]\nlease_s = 10\nrenew_s = 9\n"))


def test_broken_toml_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2"):
        load_config(write(tmp_path, "[hosts.a]\nssh = \n"))


def test_no_file_at_the_usual_place_is_no_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DDTUNE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_config() == {}
    monkeypatch.setenv("DDTUNE_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        load_config()


def test_how_the_screen_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('theme = "light"\n[keys]\nroll-back = "f9"\n')
    assert load_screen(file) == ScreenConfig("light", {"roll-back": "f9"})
    file.write_text("")
    assert load_screen(file) == ScreenConfig("dark", {})
    file.write_text('theme = "pink"\n')
    with pytest.raises(ConfigError, match=r"theme: .*'dark', 'light', 'terminal' or 'terminal-light'"):
        load_screen(file)
