"""The flag check as a host runs it: a program given to the engine's Python, with stand-ins for the engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddtune.inengine import check_flags
from ddtune.onhost import flag_check, in_engine

PARSER = """
import argparse, os, sys
parser = argparse.ArgumentParser(prog="sglang serve")
parser.add_argument("--port", type=int)
parser.add_argument("--device")
parser.add_argument("--max-running-requests", type=int)
parser.add_argument("--schedule-policy", choices=["fcfs", "lpm"])
print("noise of an import")
"""
# Versions since 0.5.22 parse first and judge when resolved; those before judge while they are made.
LATE = """
class Args:
    def __init__(self, parsed):
        self.parsed = parsed
    def resolve_once(self):
        check(self.parsed)
def prepare_server_args(argv):
    return Args(parser.parse_args(argv))
"""
EARLY = """
def prepare_server_args(argv):
    parsed = parser.parse_args(argv)
    check(parsed)
    return parsed
"""
CHECK = """
def check(parsed):
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    print("noise of resolving")
    if parsed.max_running_requests == 0:
        raise ValueError("a hint\\nmax_running_requests must be positive")
    if parsed.max_running_requests == 13:
        os._exit(139)
    if os.environ.get("BROKEN"):
        raise RuntimeError("BROKEN is set")
    os.environ["BROKEN"] = "by an earlier resolve"
"""


@pytest.fixture(params=["late", "early"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder for PYTHONPATH with an sglang that has nothing but its arguments."""
    return write(tmp_path, PARSER + CHECK + (LATE if request.param == "late" else EARLY))


def write(folder: Path, text: str) -> Path:
    package = folder / "sglang/srt"
    package.mkdir(parents=True)
    for init in (folder / "sglang/__init__.py", package / "__init__.py"):
        init.touch()
    (package / "server_args.py").write_text(text)
    return folder


PROGRAM = [sys.executable, "-m", "sglang.launch_server"]


def check(engine: Path, *words: str, running: tuple[str, ...] = ("--port", "1"), **fields: Any) -> dict[str, Any]:
    """The answer for ``words``, with nothing cached."""
    request = {"env_set": {}, "env_unset": [], "cwd": "/", "folder": str(engine), "cache": {}, **fields}
    env = {"PYTHONPATH": str(engine), "PATH": "/usr/bin", **request.pop("env", {})}
    found, _ = flag_check.check([*PROGRAM, *running], [*PROGRAM, *words], env=env, user=None, **request)
    return found


def verdict(found: dict[str, Any]) -> tuple[str, str | None, str]:
    return found["verdict"], found["stage"], found["text"]


def test_good_flags_are_accepted(engine: Path) -> None:
    assert verdict(check(engine, "--port", "2", "--schedule-policy", "lpm")) == ("accepted", None, "")


@pytest.mark.parametrize(
    ("words", "stage", "text"),
    [
        (("--no-such-flag", "1"), "parse", "unrecognized arguments: --no-such-flag 1"),
        (("--schedule-policy", "best"), "parse", "invalid choice: 'best'"),
        (("--max-running-requests", "many"), "parse", "invalid int value: 'many'"),
        (("--max-running-requests", "0"), "resolve", "max_running_requests must be positive"),
    ],
)
def test_refusals_are_the_engines_own_words(engine: Path, words: tuple[str, ...], stage: str, text: str) -> None:
    found = check(engine, *words)
    assert (found["verdict"], found["stage"]) == ("refused", stage)
    assert text in found["text"]
    assert "\n" not in found["text"]


def test_the_release_brings_its_environment_with_it(engine: Path) -> None:
    assert check(engine, "--port", "2", env_set={"BROKEN": "1"})["verdict"] == "refused"
    found = check(engine, "--port", "2", env={"BROKEN": "1"}, env_unset=["BROKEN"])
    assert found["verdict"] == "accepted"


def test_a_check_that_refuses_what_runs_refuses_nothing(engine: Path) -> None:
    found = check(engine, "--max-running-requests", "0", running=("--max-running-requests", "0"))
    assert found["verdict"] == "unknown"
    assert "what runs now as well" in found["text"]


def test_a_crash_of_the_check_is_no_refusal(engine: Path) -> None:
    assert check(engine, "--max-running-requests", "13")["verdict"] == "unknown"


def test_an_interpreter_without_the_engine_is_no_refusal(tmp_path: Path) -> None:
    found = check(tmp_path, "--port", "2")
    assert found["verdict"] == "unknown"
    assert "No module named 'sglang'" in found["text"]


def test_another_program_is_not_judged(engine: Path) -> None:
    running, other = [*PROGRAM, "--port", "1"], ["/usr/bin/python3", "-m", "sglang.launch_server", "--port", "1"]
    found, _ = flag_check.check(running, other, {}, [], "/", {}, None, None, {})
    assert found["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DFLASH needs a CUDA device", "unknown"),
        ("trtllm_mha needs SM100 or newer", "unknown"),
        ("Unknown speculative algorithm name: DDTREE", "refused"),
    ],
)
def test_what_is_said_of_hidden_gpus_refuses_nothing(text: str, expected: str) -> None:
    said = {"candidate": {"stage": "resolve", "text": text}, "control": {"stage": "accepted"}, "gpu_hidden": True}
    assert flag_check.judged(said, 0, b"", 1.0)["verdict"] == expected
    seen = {**said, "gpu_hidden": False}
    assert flag_check.judged(seen, 0, b"", 1.0)["verdict"] == "refused"


@pytest.mark.parametrize(
    ("stage", "control", "expected"),
    [
        ("parse", "accepted", "refused"),
        ("parse", "resolve", "refused"),
        ("parse", "parse", "unknown"),
        ("parse", None, "unknown"),
        ("resolve", "resolve", "unknown"),
    ],
)
def test_a_word_that_only_the_candidate_has_wrong_is_refused_whatever_resolves(
    stage: str, control: str | None, expected: str
) -> None:
    said = {"candidate": {"stage": stage, "text": "invalid choice"}, "control": control and {"stage": control}}
    assert flag_check.judged(said, 0, b"", 1.0)["verdict"] == expected


def test_answers_are_kept_until_the_package_changes(engine: Path) -> None:
    env = {"PYTHONPATH": str(engine), "PATH": "/usr/bin"}

    def ask(cache: dict[str, Any], started: str) -> tuple[dict[str, Any], dict[str, Any]]:
        service = {**env, "INVOCATION_ID": started}
        return flag_check.check(PROGRAM, [*PROGRAM, "--port", "2"], {}, [], "/", service, None, str(engine), cache)

    first, cache = ask({}, "a")
    assert first["seconds"] > 0
    assert ask(cache, "b")[0] == {**first, "seconds": 0.0}
    (engine / "another.py").touch()
    assert ask(cache, "b")[0]["seconds"] > 0


def test_the_device_is_named_where_gpus_are_hidden() -> None:
    assert check_flags.with_device(["--port", "1"], gpu=True) == ["--port", "1", "--device", "cuda"]
    assert check_flags.with_device(["--device=cpu"], gpu=True) == ["--device=cpu"]
    assert check_flags.with_device(["--port", "1"], gpu=False) == ["--port", "1"]


def test_the_request_is_not_on_the_command_line(engine: Path) -> None:
    """An API key of the running argv must not show in a process list."""
    request = {"control": ["--port", "1"], "candidate": ["--port", "2"], "env_set": {}, "env_unset": []}
    done = subprocess.run(
        [sys.executable, "-c", in_engine.source(flag_check.PROGRAM) or ""],
        input=json.dumps(request).encode(),
        env={"PYTHONPATH": str(engine), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1])["candidate"] == {"stage": "accepted", "text": ""}
