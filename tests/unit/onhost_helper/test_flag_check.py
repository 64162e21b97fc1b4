"""What the installed engine says of a command line, asked through the helper."""

from __future__ import annotations

import json
import sys

from tests.unit.onhost_helper.host import PLACEHOLDER, Host

PROGRAM = [sys.executable, "-m", "sglang.launch_server"]


def test_the_engine_is_asked_through_the_helper(host: Host) -> None:
    host.adopted("--api-key", "secret")
    argv = [*PROGRAM, "--port", str(host.port), "--api-key", PLACEHOLDER, "--tp-size", "2"]
    host.ok("check_flags", argv=argv)
    assert not list(host.root.rglob("flag-checks.json")), "who only looks writes nothing"
    first = host.ok("check_flags", argv=argv, keep=True)
    assert (first["verdict"], first["stage"], first["text"]) == ("accepted", None, "")
    assert host.ok("check_flags", argv=argv)["seconds"] == 0.0, "asked once"

    found = host.ok("check_flags", argv=[*PROGRAM, "--tp-size", "3"], env_set={"A": "1"}, env_unset=["B"])
    assert (found["verdict"], found["stage"]) == ("refused", "parse")
    assert "invalid choice: 3" in found["text"]


def test_what_is_kept_holds_no_key(host: Host) -> None:
    host.adopted("--api-key", "secret")
    host.ok("check_flags", argv=[*PROGRAM, "--api-key", PLACEHOLDER, "--tp-size", "3"], keep=True)
    kept = list(host.root.rglob("flag-checks.json"))
    assert len(kept) == 1
    assert "secret" not in kept[0].read_text()
    assert len(json.loads(kept[0].read_text())) == 1


def test_a_service_that_is_down_cannot_be_asked(host: Host) -> None:
    host.adopted()
    host.systemctl("stop", "sglang-k26.service")
    cause, message = host.refused("check_flags", argv=PROGRAM)
    assert cause == "unknown"
    assert "does not run" in message
