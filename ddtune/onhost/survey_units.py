"""Which services of a host run an engine, in whatever way, and what of ddtune is there."""

from __future__ import annotations

import glob
import os
from typing import Any

from . import adopt_checks, inspect_process
from .collect_unit import read_argv
from .paths import Paths
from .redact import redact_argv
from .unit import Systemctl, SystemctlError, parse_show


def look(systemctl: Systemctl, paths: Paths) -> dict[str, Any]:
    """``units``: running services with an engine, each with why it could not be adopted (``unsupported``, or None) ·
    ``loose``: engines of no service · ``adopted`` and ``drop_ins``: units that ddtune has, or has left a drop-in of.
    """
    try:
        services = _running(systemctl)
        error = None
    except SystemctlError as failed:
        services, error = {}, str(failed)
    tree = inspect_process.parents()
    units: dict[str, dict[str, Any]] = {}
    loose = []
    for pid in tree.engines():
        owner = tree.owner(pid, {int(props["MainPID"]): unit for unit, props in services.items()})
        if owner is None:
            loose.append({"pid": pid, "argv": redact_argv(read_argv(pid))})
        else:
            units.setdefault(owner, {"unit": owner, "below": None if services[owner]["MainPID"] == str(pid) else pid})
    for unit, props in services.items():
        argv = read_argv(int(props["MainPID"]))
        if _is_container(argv):
            units.setdefault(unit, {"unit": unit, "below": None})
        if unit in units:
            units[unit]["unsupported"] = adopt_checks.unsupported(unit, props, argv, units[unit]["below"])
    return {
        "units": [units[name] for name in sorted(units)],
        "loose": loose,
        "adopted": paths.adopted(),
        "drop_ins": sorted(
            path.split("/")[-2][: -len(".d")] for path in glob.glob(f"{paths.units}/*.d/zz-ddtune.conf")
        ),
        "error": error,
    }


def _running(systemctl: Systemctl) -> dict[str, dict[str, str]]:
    """Properties of the services that have a main process."""
    listed = systemctl.run("list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--no-pager")
    names = [line.split()[0] for line in listed.splitlines() if line.split()]
    if not names:
        return {}
    wanted = "Id,MainPID,LoadState,FragmentPath,ExecStart,Type,DynamicUser,RootDirectory,RootImage"
    blocks = systemctl.run("--no-pager", "show", "-p", wanted, *names).split("\n\n")
    found = (parse_show(block) for block in blocks)
    return {props["Id"]: props for props in found if props.get("Id") and props.get("MainPID", "0") != "0"}


def _is_container(argv: tuple[str, ...]) -> bool:
    program = os.path.basename(argv[0]) if argv else ""
    return program in adopt_checks.CONTAINERS and any("sglang" in word for word in argv)
