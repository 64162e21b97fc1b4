"""One clock zone, no animation, no settings of whoever runs the tests; one embedded host for those that need one."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input

from ddtune.config.model import HostConfig
from ddtune.config.resolve import resolve_host
from ddtune.tui import frames
from tests.tui.embedded import serving
from tests.tui.svg import SvgExtension

SPEED = 80


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("NO_COLOR", "DDTUNE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Input, "_toggle_cursor", lambda _: None)
    monkeypatch.setattr(frames, "FRAME_S", 0.0)
    monkeypatch.chdir(tmp_path)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def svg(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SvgExtension)


@pytest.fixture(scope="session")
def host() -> Iterator[HostConfig]:
    with serving(SPEED, DDTUNE_SIM_TRAFFIC="8") as name:
        yield resolve_host(name)
