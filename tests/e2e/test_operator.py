"""The configuration that the end-to-end tests write is one that ddtune reads."""

from __future__ import annotations

from pathlib import Path

from ddtune.config.load import load_config
from tests.e2e.guest import Guest
from tests.e2e.operator import HOST, write_config


def test_config_names_the_guest(shared_guest: Guest, tmp_path: Path) -> None:
    host = load_config(write_config(shared_guest, tmp_path, {"drain_s": 1}, protected=True))[HOST]
    assert (host.ssh, host.user, host.port) == ("127.0.0.1", "root", shared_guest.port)
    assert host.known_hosts == shared_guest.known_hosts
    assert host.limits.drain_s == 1
    assert host.protected
    assert host.clock_scale == 1
