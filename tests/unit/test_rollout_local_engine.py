"""The flag check on the operator's machine, by a stand-in for an SGLang that is installed there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ddtune.cli.profiles import profiles
from ddtune.profiles.model import Release
from ddtune.rollout import local_engine
from tests.unit.inengine.test_check_flags import CHECK, LATE, PARSER

EXTRA = 'parser.add_argument("--model-path")\n'
MODEL_NEEDED = """
def check(parsed):
    if not os.path.exists(parsed.model_path):
        raise ValueError("no model at " + parsed.model_path)
    if parsed.max_running_requests == 0:
        raise ValueError("max_running_requests must be positive")
"""
Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    def write(check: str) -> None:
        package = tmp_path / "sglang/srt"
        package.mkdir(parents=True)
        (tmp_path / "sglang/__init__.py").touch()
        (package / "__init__.py").touch()
        (package / "server_args.py").write_text(PARSER + EXTRA + LATE + check)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(str(tmp_path))

    return write


def release(*words: str) -> Release:
    return Release(argv=words, env_set={}, env_unset=(), cwd="/")


def said(*words: str, running: tuple[str, ...] = ()) -> list[tuple[bool, str]]:
    return [(one.blocks, one.text) for one in local_engine.check(release(*words), running)]


def test_flags_and_their_values_are_judged_without_a_model(install: Install) -> None:
    install(MODEL_NEEDED)
    (found,) = said("--no-such-flag", "1")
    assert found[0]
    assert "unrecognized arguments: --no-such-flag 1" in found[1]
    ((blocks, text),) = said("--schedule-policy", "best-first")
    assert blocks
    assert "invalid choice: 'best-first'" in text
    ((blocks, text),) = said("--schedule-policy", "lpm")
    assert not blocks, "that no model is here is not the profile's fault"


def test_what_flags_mean_together_counts_beside_what_runs(install: Install, tmp_path: Path) -> None:
    install(MODEL_NEEDED)
    running = ("/usr/bin/python3", "-m", "sglang.launch_server", "--model-path", str(tmp_path))
    assert said(*running, "--schedule-policy", "lpm", running=running) == []
    ((blocks, text),) = said(*running, "--max-running-requests", "0", running=running)
    assert blocks
    assert "must be positive" in text


def test_the_command_asks_it(install: Install) -> None:
    install(CHECK)
    done = CliRunner().invoke(profiles, ["check", "ngram8", "--local-engine"])
    assert done.exit_code == 9
    assert "The installed engine refuses this command line: " in done.output


def test_without_one_the_command_says_what_to_install() -> None:
    assert not local_engine.installed()
    done = CliRunner().invoke(profiles, ["check", "ngram8", "--local-engine"])
    assert done.exit_code == 2
    assert "pip install 'ddtune[engine]'" in done.output
