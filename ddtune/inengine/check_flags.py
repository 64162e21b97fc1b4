"""Asks the installed SGLang whether it takes a command line, without a GPU and without starting anything.

Run by the service's own Python with this file as the program (``-c``), in the service's working folder and environment.
Standard input is ``{"control": [WORD…], "candidate": [WORD…], "env_set": {…}, "env_unset": […]}``: what follows the
engine's own words in the command line that runs, and in the one to judge. The last line of output is
``{"candidate": R, "control": R | null, "gpu_hidden": bool}``. ``R`` is ``{"stage", "text"}``: ``stage`` is
``accepted``, or where it was refused: ``parse`` (the flags themselves), ``resolve`` (their values and what they mean
together), or ``crashed``. ``gpu_hidden`` says that the host has GPUs, which the check does not see.

The control is asked only after a refusal, and makes it worth something: an engine that, so blindfolded, refuses what it
is serving just now says nothing of another command line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

GPU_NODES = ("/dev/nvidiactl", "/dev/kfd")


def judge(prepare: Callable[[list[str]], Any], argv: Sequence[str]) -> dict[str, Any]:
    """The answer for one command line; ``prepare`` is SGLang's own ``prepare_server_args``."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args = prepare(list(argv))
    except SystemExit:
        return _refused("parse", said.getvalue())
    except Exception as error:  # noqa: BLE001 (versions that resolve while they parse refuse values here)
        return _refused("resolve", str(error))
    resolve = getattr(args, "resolve_once", None)
    try:
        if resolve is not None:
            resolve()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it is, it is what a start would meet)
        return _refused("resolve", str(error))
    return {"stage": "accepted", "text": ""}


def _refused(stage: str, text: str) -> dict[str, Any]:
    """The last line says why; argparse prints its usage before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return {"stage": stage, "text": lines[-1][:500] if lines else ""}


def apart(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``work`` answers in a process of its own: resolving leaves its marks in environment and modules."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "w") as out:
                json.dump(work(), out)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    os.waitpid(child, 0)
    try:
        found: dict[str, Any] = json.loads(text)
        return found
    except ValueError:
        return {"stage": "crashed", "text": "the engine's own check crashed"}


def with_device(argv: Sequence[str], gpu: bool) -> list[str]:
    """``argv`` for the device that the service has: with its GPUs hidden the engine would take it for a CPU's."""
    named = any(word == "--device" or word.startswith("--device=") for word in argv)
    return list(argv) if named or not gpu else [*argv, "--device", "cuda"]


def answer(prepare: Callable[[list[str]], Any], request: Mapping[str, Any], gpu: bool) -> dict[str, Any]:
    """The answer to a request; ``gpu`` says whether the host has any."""

    def candidate() -> dict[str, Any]:
        for name in request["env_unset"]:
            os.environ.pop(name, None)
        os.environ.update(request["env_set"])
        return judge(prepare, with_device(request["candidate"], gpu))

    found = apart(candidate)
    control = None
    if found["stage"] != "accepted":
        control = apart(lambda: judge(prepare, with_device(request["control"], gpu)))
    return {"candidate": found, "control": control, "gpu_hidden": gpu}


def main() -> None:
    """Answers the request on standard input."""
    request = json.load(sys.stdin)
    # The engine prints as it likes; the answer has a descriptor of its own.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from sglang.srt.server_args import prepare_server_args

    found = answer(prepare_server_args, request, any(map(os.path.exists, GPU_NODES)))
    out.write("\n" + json.dumps(found) + "\n")
    out.flush()
    # Threads of the engine's libraries need not be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
