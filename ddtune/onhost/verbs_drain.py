"""The helper's verb that empties the service before it is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import drain, schema
from .api import Api, ApiError, read_admin_key, read_key
from .context import Answer, Host, RefusalError
from .txn_events import Mark
from .txn_model import ARMED
from .verbs_txn import applied, live

DRAIN: schema.Fields = {"op": schema.op, "drain_s": schema.number(0, 3600)}


def drain_requests(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Lets running requests end for ``drain_s``, then aborts what is left; stable still serves."""
    paths = host.adopted(unit)
    txn = live(paths, fields["op"], (ARMED,), "drained")
    process = host.running(unit)
    argv = process.argv if process else ()
    try:
        hooked = drain.run_hook(paths, max(1.0, fields["drain_s"]))
        api = Api(txn.api_port, read_key(txn.api_key_file, argv))
        admin = Api(txn.api_port, read_admin_key(txn.api_key_file, argv))
    except (drain.HookError, ApiError) as error:
        raise RefusalError("unknown", str(error)) from None
    waited = drain.wait_idle(api, fields["drain_s"])
    cut = drain.abort_all(api, admin)
    applied(paths, lambda at: Mark(at, txn.op, "drained"))
    return {"cut": cut, "waited_s": round(waited, 3), "hook": hooked}
