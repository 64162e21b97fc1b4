"""Speak to the helper on the host: one JSON request in, one JSON answer out, one process a call."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ddtune.host.bundle import loader_argv, loader_payload
from ddtune.host.connection import Connection, Result
from ddtune.host.errors import HelperFailed, HelperRefused
from ddtune.onhost.paths import PROTO, Paths

_ENTRY = "ddtune.onhost.main"


class Helper:
    """The installed helper of one host, reached over ``conn``.

    ``root`` is the prefix of every path on the host. ``login_is_root`` says whether sudo can be left out; by default
    the user that is logged in decides. ``python`` runs the programs where nothing is installed yet.
    """

    def __init__(
        self,
        conn: Connection,
        root: str = "",
        python: str = "/usr/bin/python3",
        login_is_root: bool | None = None,
    ) -> None:
        self._conn = conn
        self._paths = Paths(root)
        self._path = self._paths.helper
        self._python = python
        self._sudo = not (conn.user == "root" if login_is_root is None else login_is_root)

    @property
    def only_looks(self) -> bool:
        """Whether the last call was answered by the helper of logins that may only look."""
        return self._path == self._paths.viewer

    async def call(self, verb: str, unit: str | None = None, timeout: float = 30.0, **fields: Any) -> dict[str, Any]:
        """The helper's answer to ``verb``.

        Raises ``HelperRefused`` (it said no, and why), ``HelperFailed`` (no usable answer) or ``Unreachable``.
        """
        request = _request(verb, unit, fields)
        try:
            return await self._ask(self._path, request, timeout)
        except HelperFailed as error:
            if error.cause != "read_only" or not self._sudo or self.only_looks:
                raise
            try:
                answer = await self._ask(self._paths.viewer, request, timeout)
            except HelperFailed:
                raise error from None
            self._path = self._paths.viewer
            return answer

    async def _ask(self, path: str, request: bytes, timeout: float) -> dict[str, Any]:
        return _answer(await self._conn.run(self._as_root([path]), request, timeout), self._conn.label)

    async def call_uninstalled(
        self, verb: str, unit: str | None = None, timeout: float = 60.0, **fields: Any
    ) -> dict[str, Any]:
        """The same with the programs sent along instead of the installed ones, as root; nothing stays on the host."""
        argv = self._as_root(loader_argv(self._python, "helper"))
        result = await self._conn.run(argv, loader_payload(_ENTRY) + _request(verb, unit, fields), timeout)
        return _answer(result, self._conn.label)

    def _as_root(self, argv: Sequence[str]) -> list[str]:
        return ["sudo", "-n", *argv] if self._sudo else list(argv)


NO_SUDO = "has no sudo"
"""Words of the error on a host where no installer would help."""


async def as_root_run(
    conn: Connection, args: Sequence[str], request: dict[str, Any], *, python: str = "/usr/bin/python3"
) -> dict[str, Any]:
    """Run the on-host program ``args`` (such as ``["install"]``) as root with nothing installed yet.

    ``request`` is what it reads as JSON; the answer is raised or given back as the helper's are.
    """
    argv = [*([] if conn.user == "root" else ["sudo", "-n"]), *loader_argv(python, *args)]
    stdin = loader_payload(_ENTRY) + json.dumps({"proto": PROTO, **request}).encode() + b"\n"
    return _answer(await conn.run(argv, stdin, 60.0), conn.label)


def _object(out: bytes) -> dict[str, Any] | None:
    """The answer's line, whatever a login shell has printed before it."""
    for line in reversed(out.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "proto" in found:
            return found
    return None


def _request(verb: str, unit: str | None, fields: dict[str, Any]) -> bytes:
    return json.dumps({"proto": PROTO, "verb": verb, "unit": unit, **fields}).encode() + b"\n"


def _answer(result: Result, label: str) -> dict[str, Any]:
    said = result.said
    if result.rc and re.search("a (terminal|password) is required", said):
        raise HelperFailed(
            "read_only",
            f"sudo on {label} asks for a password, which ddtune never types (no NOPASSWD line names its helper, or a"
            " later line of sudoers undoes it): this host can only be watched; see `sudo -l` there.",
        )
    if result.rc and re.search("sudo: (command )?not found", said):
        raise HelperFailed(
            "read_only",
            f"{label} {NO_SUDO}, by which this login would become root: log in as root, or install sudo there;"
            " until then the host can only be watched.",
        )
    if result.rc in (126, 127) or "command not found" in said:
        raise HelperFailed(
            "not_adopted",
            f"ddtune is not installed on {label} ({said or 'no helper there'}): run ddtune adopt {label}.",
        )
    if result.rc and said.startswith("sudo:"):
        raise HelperFailed(
            "read_only",
            f"this login may not run ddtune's helper as root on {label} ({said.removeprefix('sudo:').strip()});"
            " adopt the host again or log in as another user.",
        )
    answer = _object(result.out)
    if answer is None and result.truncated:
        raise HelperFailed(
            "unknown", f"the helper on {label} said more than ddtune reads of an answer, and it was cut."
        )
    if answer is None:
        raise HelperFailed(
            "unknown", f"the helper on {label} gave no answer (status {result.rc}{': ' + said if said else ''})."
        )
    if answer.get("proto") != PROTO:
        raise HelperFailed(
            "read_only",
            f"the helper on {label} speaks protocol {answer.get('proto')}, this ddtune {PROTO}: it can only watch;"
            f" run ddtune adopt --upgrade {label}.",
        )
    if answer.get("ok") is not True:
        raise HelperRefused(
            str(answer.get("cause") or "unknown"),
            str(answer.get("message") or f"the helper on {label} refused and gave no reason."),
            answer.get("detail") if isinstance(answer.get("detail"), dict) else None,
        )
    return answer
