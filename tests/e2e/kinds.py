"""The ways in which somebody's service may be written down, each with the simulated engine in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.guest import Guest
from tests.e2e.unit import BASE_FLAGS, ENVIRONMENT, UNIT

JSON_VALUE = '{"enable_multithread_load": true}'


@dataclass(frozen=True)
class Written:
    """A unit as it lies on the guest: its name, and words that its process must have on its command line."""

    unit: str
    words: tuple[str, ...] = ()


def argv(port: int) -> str:
    """The engine's command line."""
    return " ".join([sys.executable, "-m", "sglang.launch_server", *BASE_FLAGS.format(port=port).split()])


def unit_text(exec_start: str, extra: str = "", *, restart: str = "always", without: tuple[str, ...] = ()) -> str:
    """A unit that starts ``exec_start``; ``extra`` are further lines of its [Service]."""
    variables = {name: value for name, value in ENVIRONMENT.items() if name not in without}
    settings = "\n".join(f'Environment="{name}={value}"' for name, value in variables.items())
    return f"""[Unit]
Description=SGLang (simulated)

[Service]
User=sglang
WorkingDirectory=/home/sglang
RuntimeDirectory=sglang
{settings}
ExecStart={exec_start}
Restart={restart}
RestartSec=1
{extra}

[Install]
WantedBy=multi-user.target
"""


def direct(guest: Guest) -> Written:
    guest.put(f"/etc/systemd/system/{UNIT}", unit_text(argv(guest.api_port)))
    return Written(UNIT)


def restart_no(guest: Guest) -> Written:
    guest.put(f"/etc/systemd/system/{UNIT}", unit_text(argv(guest.api_port), restart="no"))
    return Written(UNIT)


def wrapper(guest: Guest) -> Written:
    """A script that sets a variable, builds the command line and ends in exec."""
    script = f"""#!/bin/bash
# where the model lies differs between our machines
export SGLANG_DDTREE_MAX_TOPK=4 SITE_NAME="rack 7"
unset LANG
flags=(--served-model-name "$1")
exec {argv(guest.api_port)} "${{flags[@]}}"
"""
    guest.put("/usr/local/bin/run-sglang", script, "755")
    text = unit_text("/usr/local/bin/run-sglang k26", without=("SGLANG_DDTREE_MAX_TOPK",))
    guest.put(f"/etc/systemd/system/{UNIT}", text)
    return Written(UNIT, ("--served-model-name", "k26"))


def environment_file(guest: Guest) -> Written:
    """Arguments in a file, JSON among them."""
    guest.put(
        "/etc/sglang/args.env",
        "# read by systemd, not by a shell\n"
        f"SGL_ARGS=\"--model-loader-extra-config '{JSON_VALUE.replace(chr(34), chr(92) + chr(34))}'"
        ' --served-model-name a"\nQUOTED=\'a "b" c\'\n',
    )
    text = unit_text(f"{argv(guest.api_port)} $SGL_ARGS", "EnvironmentFile=/etc/sglang/args.env")
    guest.put(f"/etc/systemd/system/{UNIT}", text)
    return Written(UNIT, ("--model-loader-extra-config", JSON_VALUE, "--served-model-name", "a"))


def many_lines(guest: Guest) -> Written:
    """One command over many lines with comments between them."""
    words = argv(guest.api_port).split(" --")
    lines = [
        f"{words[0]} \\",
        "# the model",
        *(f"  --{word} \\" for word in words[1:]),
        "; the name",
        "  --served-model-name b",
    ]
    guest.put(f"/etc/systemd/system/{UNIT}", unit_text("\n".join(lines)))
    return Written(UNIT, ("--served-model-name", "b"))


def drop_ins(guest: Guest) -> Written:
    """A vendor's unit whose command a drop-in replaces, a local one for the environment, and one that is read last."""
    folder = f"/etc/systemd/system/{UNIT}.d"
    guest.put(f"/usr/local/lib/systemd/system/{UNIT}", unit_text("/bin/false", without=("SGLANG_DDTREE_MAX_TOPK",)))
    vendor = f"[Service]\nExecStart=\nExecStart={argv(guest.api_port)} --served-model-name v\n"
    guest.put(f"{folder}/10-vendor.conf", vendor)
    guest.put(f"{folder}/90-local.conf", "[Service]\nEnvironment=SGLANG_DDTREE_MAX_TOPK=4\n")
    guest.put(f"{folder}/zzz-site.conf", "[Service]\nEnvironment=SITE_NAME=last\n")
    return Written(UNIT, ("--served-model-name", "v"))


def instance(guest: Guest) -> Written:
    """An instance of a template."""
    guest.put("/etc/systemd/system/sglang@.service", unit_text(f"{argv(guest.api_port)} --served-model-name %i"))
    return Written("sglang@a.service", ("--served-model-name", "a"))


KINDS: dict[str, Callable[[Guest], Written]] = {
    "direct": direct,
    "restart-no": restart_no,
    "wrapper": wrapper,
    "environment-file": environment_file,
    "many-lines": many_lines,
    "drop-ins": drop_ins,
    "instance": instance,
}
