"""The helper: one JSON request on standard input, one JSON answer on standard output, nothing else.

It takes no arguments, so that one line of sudoers can allow exactly it. Whatever is sent, it answers with an object:
``{"proto", "ok": true, …}``, or ``{"proto", "ok": false, "cause", "message", "detail"}``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from . import adopt, arming, programs, schema, store, verbs_load, verbs_read, verbs_release, verbs_txn
from .context import Answer, Host, RefusalError
from .paths import PROTO, Install, Paths, load_install
from .releases import ReleaseError
from .txn_model import TxnError
from .unit import SystemctlError

MAX_REQUEST = 4 * 1024 * 1024
"""Bytes of a request at most."""


class Verb(NamedTuple):
    """What a verb takes and who answers it; ``on_unit`` says whether it needs the name of one."""

    fields: schema.Fields
    act: Callable[[Host, Any, Mapping[str, Any]], Answer]
    on_unit: bool = True


VERBS: dict[str, Verb] = {
    "hello": Verb({}, verbs_read.hello, on_unit=False),
    "state": Verb(verbs_read.STATE, verbs_read.state),
    "release": Verb(verbs_read.RELEASE, verbs_read.release),
    "base": Verb({}, verbs_read.base),
    "inspect": Verb(verbs_read.INSPECT, verbs_read.inspect),
    "probe_build": Verb({}, verbs_read.probe_build),
    "put_release": Verb(verbs_release.PUT_RELEASE, verbs_release.put_release),
    "record": Verb(verbs_release.RECORD, verbs_release.record),
    "arm": Verb(arming.ARM, verbs_txn.arm),
    "drain": Verb(verbs_txn.DRAIN, verbs_txn.drain_requests),
    "swap": Verb(verbs_txn.OP, verbs_txn.swap),
    "stop": Verb(verbs_txn.OP, verbs_txn.stop),
    "start": Verb(verbs_txn.OP, verbs_txn.start),
    "renew": Verb(verbs_txn.OP, verbs_txn.renew),
    "ready": Verb(verbs_txn.OP, verbs_txn.ready),
    "soak": Verb(verbs_txn.OP, verbs_txn.soak),
    "confirm": Verb(verbs_txn.CONFIRM, verbs_txn.confirm),
    "fail": Verb(verbs_txn.FAIL, verbs_txn.fail),
    "abort": Verb(verbs_txn.ABORT, verbs_txn.abort),
    "settle": Verb(verbs_txn.SETTLE, verbs_txn.settle),
    "load": Verb(verbs_load.LOAD, verbs_load.load),
    "adopt": Verb(adopt.ADOPT, adopt.adopt),
    "unadopt": Verb(adopt.UNADOPT, adopt.unadopt),
}


def main(_args: Sequence[str] = ()) -> int:
    """Answers the request on standard input; 0 whenever an answer was given."""
    say(answer(read_request(0)))
    return 0


def main_install(_args: Sequence[str] = ()) -> int:
    """Installs the programs as the object on standard input says, and answers as the helper does."""
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


def answer(raw: bytes) -> Answer:
    """The whole answer to a request; never raises."""
    return guarded(lambda: {"ok": True, **_answer(_object(raw))})


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
        cause = "read_only" if isinstance(error, PermissionError) else "unknown"
        return _refused(cause, f"{error.filename or 'a system call'}: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001 (a bug must reach the operator as an answer, without values)
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "?"
        return _refused("unknown", f"the helper has a bug: {type(error).__name__} at {where}")


def _answer(request: dict[str, Any]) -> Answer:
    proto = request.get("proto")
    if proto != PROTO:
        raise RefusalError("read_only", f"this host speaks protocol {PROTO}, the request {proto!r:.40}")
    name = request.get("verb")
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None:
        raise schema.BadRequestError(f"there is no verb {name!r:.60}")
    unit: Optional[str] = None
    if verb.on_unit:
        try:
            unit = schema.unit(request.get("unit"))
        except schema.BadRequestError:
            raise schema.BadRequestError(f"{name} needs 'unit', the name of a service unit") from None
    return verb.act(Host.of(_constants(request)), unit, schema.fields(request, verb.fields))


def _constants(request: dict[str, Any]) -> Install:
    """Those of the installation; a helper that was only sent along (nothing is installed) is told them."""
    if sys.argv[0] != "-c":
        return load_install()
    given = request.pop("install", None)
    constants = programs.INSTALL(given) if given is not None else {}
    return Install(**{**constants, "pyz": Paths(constants.get("root", "")).pyz})


def _object(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_REQUEST:
        raise schema.BadRequestError(f"the request has more than {MAX_REQUEST} bytes")
    return schema.parse(raw)


def _refused(cause: str, message: str, detail: Optional[Mapping[str, Any]] = None) -> Answer:
    return {"ok": False, "cause": cause, "message": message, "detail": dict(detail or {})}
