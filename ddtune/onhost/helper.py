"""The helper: one JSON request on standard input, one JSON answer on standard output, nothing else.

It takes no arguments, so that one line of sudoers can allow exactly it. Whatever is sent, it answers with an object:
``{"proto", "ok": true, …}``, or ``{"proto", "ok": false, "cause", "message", "detail"}``.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
from collections.abc import Callable, Container, Mapping
from typing import Any, Optional

from . import schema, store
from .context import Answer, Host, RefusalError
from .paths import PROTO, Install, Paths, load_install
from .releases import ReleaseError
from .txn_model import TxnError
from .unit import SystemctlError

MAX_REQUEST = 4 * 1024 * 1024
"""Bytes of a request at most."""


# verb: (module, its fields, who answers). A module is read only when its verb is asked for: that costs most of a call.
VERBS = {
    "hello": ("verbs_host", "NOTHING", "hello"),
    "probe_build": ("verbs_host", "PROBE_BUILD", "probe_build"),
    "check_flags": ("verbs_host", "CHECK_FLAGS", "check_flags"),
    "state": ("verbs_read", "STATE", "state"),
    "release": ("verbs_read", "RELEASE", "release"),
    "base": ("verbs_read", "NOTHING", "base"),
    "inspect": ("verbs_read", "INSPECT", "inspect"),
    "can_hold": ("verbs_read", "CAN_HOLD", "can_hold"),
    "who": ("verbs_read", "NOTHING", "acted"),
    "put_release": ("verbs_release", "PUT_RELEASE", "put_release"),
    "record": ("verbs_release", "RECORD", "record"),
    "arm": ("arming", "ARM", "arm"),
    "drain": ("verbs_drain", "DRAIN", "drain_requests"),
    "swap": ("verbs_txn", "OP", "swap"),
    "stop": ("verbs_txn", "OP", "stop"),
    "start": ("verbs_txn", "OP", "start"),
    "renew": ("verbs_txn", "OP", "renew"),
    "ready": ("verbs_txn", "OP", "ready"),
    "lift": ("verbs_txn", "OP", "lift"),
    "soak": ("verbs_txn", "OP", "soak"),
    "confirm": ("verbs_txn", "CONFIRM", "confirm"),
    "fail": ("verbs_txn", "FAIL", "fail"),
    "abort": ("verbs_txn", "ABORT", "abort"),
    "settle": ("verbs_txn", "SETTLE", "settle"),
    "load": ("verbs_load", "LOAD", "load"),
    "canary": ("verbs_canary", "CANARY", "canary"),
    "can_adopt": ("adopt", "JUDGE", "can_adopt"),
    "adopt": ("adopt", "ADOPT", "adopt"),
    "unadopt": ("unadopt", "UNADOPT", "unadopt"),
    "accept": ("accept", "ACCEPT", "accept"),
    "watching": ("verbs_watch", "WATCHING", "watching"),
    "judged": ("verbs_release", "JUDGED", "judged"),
    "evidence": ("evidence", "EVIDENCE", "evidence"),
    "golden": ("verbs_golden", "GOLDEN", "golden"),
    "put_golden": ("verbs_golden", "PUT_GOLDEN", "put_golden"),
    "keep": ("kept", "KEEP", "keep"),
}
READING = frozenset(
    ("hello", "state", "release", "base", "inspect", "can_hold", "who", "probe_build", "evidence", "golden")
)
"""What a viewer's helper answers: it changes nothing, sends the service nothing and keeps nothing."""
HIDDEN_FROM_VIEWERS = {"release": "release_without_secrets"}
"""Who answers a viewer instead."""
WITHOUT_UNIT = ("hello",)

_OS_CAUSES = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EACCES: "read_only",
    errno.EPERM: "read_only",
    errno.EROFS: "read_only",
}


def main() -> int:
    """Answers the request on standard input; 0 whenever an answer was given."""
    say(answer(read_request(0)))
    return 0


def main_viewer() -> int:
    """The same for a login that may only look."""
    say(answer(read_request(0), READING))
    return 0


def main_install() -> int:
    """Installs the programs as the object on standard input says, and answers as the helper does."""
    from . import programs

    say(guarded(lambda: {"ok": True, **programs.install(_object(read_request(0)))}))
    return 0


def read_request(descriptor: int) -> bytes:
    """All of the input, but not more than a byte beyond what a request may have."""
    parts, size = [], 0
    while size <= MAX_REQUEST:
        part = os.read(descriptor, 65536)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)[: MAX_REQUEST + 1]


def say(said: Mapping[str, Any]) -> None:
    """The answer as one line; a reader that has gone away is nothing to die of."""
    data = json.dumps({"proto": PROTO, **said}).encode() + b"\n"
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def answer(raw: bytes, allowed: Container[str] = VERBS) -> Answer:
    """The whole answer to a request of one of the verbs ``allowed``; never raises."""
    return guarded(lambda: {"ok": True, **_answer(_object(raw), allowed)})


def guarded(act: Callable[[], Answer]) -> Answer:
    """What ``act`` answers, or the refusal that its error stands for."""
    try:
        return act()
    except RefusalError as error:
        return _refused(error.cause, str(error), error.detail)
    except (schema.BadRequestError, TxnError, ReleaseError) as error:
        return _refused("unknown", str(error))
    except store.LockTimeoutError:
        return _refused("busy", "another program works on this unit just now: try again")
    except store.DiskFull as error:
        return _refused("disk_full", str(error))
    except SystemctlError as error:
        return _refused("unknown", f"systemd on this host said: {error}")
    except OSError as error:
        cause = _OS_CAUSES.get(error.errno or 0, "unknown")
        return _refused(cause, f"{error.filename or 'a system call'}: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 (a bug must reach the operator as an answer, without values)
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
        return _refused("unknown", f"the helper has a bug: {type(error).__name__} at {where}")


def _answer(request: dict[str, Any], allowed: Container[str]) -> Answer:
    proto = request.get("proto")
    if proto != PROTO:
        raise RefusalError("read_only", f"this host speaks protocol {PROTO}, the request {proto!r:.40}")
    verb = request.get("verb")
    if not isinstance(verb, str) or verb not in VERBS:
        raise schema.BadRequestError(f"there is no verb {verb!r:.60}")
    if verb not in allowed or (allowed is READING and request.get("keep")):
        raise RefusalError("read_only", f"this login may only look at this host: {verb} is for those who may change it")
    unit: Optional[str] = None
    if verb not in WITHOUT_UNIT:
        try:
            unit = schema.unit(request.get("unit"))
        except schema.BadRequestError:
            raise schema.BadRequestError(f"{verb} needs 'unit', the name of a service unit") from None
    host = Host.of(_constants(request))
    name, fields, act = VERBS[verb]
    if allowed is READING:
        act = HIDDEN_FROM_VIEWERS.get(verb, act)
    module = importlib.import_module(f"{__package__}.{name}")
    said: Answer = getattr(module, act)(host, unit, schema.fields(request, getattr(module, fields)))
    return said


def _constants(request: dict[str, Any]) -> Install:
    """Those of the installation; a helper that was only sent along (nothing is installed) is told them."""
    if sys.argv[0] != "-c":
        return load_install()
    from . import programs

    given = request.pop("install", None)
    constants = programs.INSTALL(given) if given is not None else {}
    return Install(**{**constants, "pyz": Paths(constants.get("root", "")).pyz})


def _object(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_REQUEST:
        raise schema.BadRequestError(f"the request has more than {MAX_REQUEST} bytes")
    return schema.parse(raw)


def _refused(cause: str, message: str, detail: Optional[Mapping[str, Any]] = None) -> Answer:
    return {"ok": False, "cause": cause, "message": message, "detail": dict(detail or {})}
