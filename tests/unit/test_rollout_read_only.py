"""A host that the configuration calls read-only: nothing is changed there, and no look leaves a trace."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ddtune.cli.group import ddtune as main
from ddtune.config.model import HostConfig
from ddtune.onhost import helper
from ddtune.onhost.helper import VERBS
from ddtune.rollout.errors import Refused
from ddtune.rollout.link import READING, HostLink
from ddtune.tui.desk import Desk

# Nothing listens there: a refusal comes before any connection.
HOST = HostConfig("b300", "127.0.0.1", unit="sglang.service", port=1, write=False)
CHANGES = (("switch", "b16-eager", "--yes"), ("restart",), ("rollback",), ("abort",), ("adopt",), ("unadopt",))


@pytest.mark.parametrize("verb", sorted(set(VERBS) - READING))
def test_no_verb_that_writes_is_sent(verb: str) -> None:
    link = HostLink(HOST, "sglang.service")
    for send in (link.once, link.call, link.fresh):
        with pytest.raises(Refused) as refused:
            asyncio.run(send(verb))  # type: ignore[arg-type] # a coroutine of each of the three
        assert refused.value.cause == "read_only"


@pytest.mark.parametrize("verb", ["probe_build", "check_flags"])
def test_nothing_is_kept_of_a_look(verb: str) -> None:
    with pytest.raises(Refused):
        asyncio.run(HostLink(HOST, "sglang.service").once(verb, keep=True))


def test_what_a_login_that_may_only_look_can_ask_is_asked_of_a_read_only_host() -> None:
    assert set(VERBS) > READING > helper.READING


def test_the_page_names_the_verbs_that_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    said = page.partition("\nThe verbs and their fields")[2].partition("\n## ")[0]
    reading, writing = (set(re.findall(r"`([a-z_]+)`", part)) for part in said.split("Writing:"))
    assert reading >= READING
    assert writing == set(VERBS) - READING


@pytest.mark.parametrize("command", CHANGES, ids=lambda command: command[0])
def test_commands_that_change_are_refused(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[hosts.b300]\nssh = "127.0.0.1"\nport = 1\nwrite = false\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DDTUNE_CONFIG", str(config))
    name, *args = command
    answer = CliRunner().invoke(main, [name, "b300", *args, "--json"])
    said: Any = json.loads(answer.stdout)
    assert (answer.exit_code, said["error"]["cause"]) == (7, "read_only"), answer.output
    assert "b300 is read-only" in said["error"]["message"]


@pytest.mark.parametrize(("write", "writable"), [(True, True), (None, False), (False, False)])
def test_dashboard_opens_as_the_configuration_says(write: bool | None, writable: bool) -> None:
    desk = Desk(HostConfig("b300", "127.0.0.1", write=write), write=False)
    try:
        assert desk.view().writable is writable
        desk.unlock()
        assert desk.view().writable is (write is not False)
    finally:
        desk.stop()


def test_no_option_opens_a_read_only_host() -> None:
    desk = Desk(HOST, write=True)
    try:
        assert not desk.view().writable
    finally:
        desk.stop()
