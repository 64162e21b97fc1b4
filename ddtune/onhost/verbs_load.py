"""The helper's verb that sends requests to the engine, through a process of the service's own user."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import schema
from .api import ApiError, read_key
from .as_user import RunError, run_as
from .context import Answer, Host, RefusalError

_SLACK_S = 15.0

LOAD: schema.Fields = {
    "requests": schema.many(schema.document(2 * 1024 * 1024), 2000),
    "concurrency": schema.integer(1, 4096),
    "timeout_s": schema.number(0.1, 86400),
    "deadline_s": schema.number(0.1, 86400),
    "stop_on_error": schema.maybe(schema.flag, False),
    "api_port": schema.maybe(schema.integer(1, 65535), 30000),
    "api_key_file": schema.maybe(schema.path),
}


def load(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Sends ``requests`` and answers ``{"answers", "seconds"}``; refused as busy while another load is sent."""
    process = host.running(unit)
    try:
        key = read_key(fields["api_key_file"], process.argv if process else ())
    except ApiError as error:
        raise RefusalError("unknown", str(error)) from None
    order = {name: fields[name] for name in fields if name not in ("api_port", "api_key_file")}
    order.update(port=fields["api_port"], key=key, root=host.install.root)
    user = host.systemctl.show(unit, "User").get("User")
    command = [host.install.python, "-I", host.install.pyz, "load"]
    try:
        status, out, err = run_as(
            command, "/", {"PATH": os.defpath}, user, fields["deadline_s"] + _SLACK_S, json.dumps(order).encode()
        )
    except RunError as error:
        raise RefusalError("unknown", str(error)) from None
    found = [json.loads(line) for line in out.splitlines()] if not status else []
    if not found:
        said = err.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"it ended with status {status}"]
        raise RefusalError("unknown", f"the requests could not be sent: {said[0][:300]}")
    return {"answers": found, "seconds": 0.0}
