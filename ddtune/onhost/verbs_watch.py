"""The helper's verb of ``ddtune watch``: it says that it lives, so that its silence can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import clock, schema, store
from .context import Answer, Host

WATCHING: schema.Fields = {
    "owner": schema.OWNER,
    "every_s": schema.number(1, 7 * 86400),
    "over": schema.maybe(schema.flag, False),
}


def watching(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Notes that a watch of ``unit`` lives and looks every ``every_s``; ``over`` when it was ended on purpose."""
    paths = host.adopted(unit)
    if fields["over"]:
        found = store.read_json(paths.watch)
        if found is not None and found.get("owner") == fields["owner"]:
            store.remove(paths.watch)
        return {}
    store.write_json(paths.watch, {"owner": fields["owner"], "every_s": fields["every_s"], "at": clock.wall()})
    return {}
