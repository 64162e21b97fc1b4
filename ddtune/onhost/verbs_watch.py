"""The helper's verb of ``ddtune watch``: it says that it lives, so that its silence can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import clock, schema, store
from .context import Answer, Host

WATCHERS = 8
"""Watches of one unit that are remembered at most: the ones longest silent go first."""
FORGOTTEN_S = 7 * 86400.0
"""Seconds of silence behind which another's sign of life lets a watch be forgotten."""

WATCHING: schema.Fields = {
    "owner": schema.OWNER,
    "every_s": schema.number(1, 7 * 86400),
    "mode": schema.maybe(schema.one_of("acts", "tells", "dry"), "acts"),
    "over": schema.maybe(schema.flag, False),
}


def watching(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Notes that a watch of ``unit`` lives and looks every ``every_s``; ``over`` when it was ended on purpose.

    ``mode`` is whether it ``acts``, only ``tells``, or only says what it would tell (``dry``). A watch that is started
    anew takes the place of the one of the same login, machine and mode. What was heard last comes first, and has the
    ``others``.
    """
    paths = host.adopted(unit)
    with store.locked(paths):
        now = clock.wall()
        kept = _kept(store.read_json(paths.watch))
        if fields["over"]:
            left = [one for one in kept if one.get("owner") != fields["owner"]]
            if left == kept:
                return {}
        else:
            mine = {name: fields[name] for name in ("owner", "every_s", "mode")}
            others = [one for one in kept if _whose(one) != _whose(mine) and now - one["at"] < FORGOTTEN_S]
            left = [{**mine, "at": now, "boottime": clock.boottime()}, *others][:WATCHERS]
        if left:
            store.write_json(paths.watch, {**left[0], "others": left[1:]})
        else:
            store.remove(paths.watch)
    return {}


def _kept(found: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The watches in the file, the one heard of last first."""
    others = (found or {}).get("others")
    listed = [found, *(others if isinstance(others, list) else [])]
    whole = [one for one in listed if isinstance(one, Mapping) and isinstance(one.get("at"), (int, float))]
    plain = [{name: one[name] for name in one if name != "others"} for one in whole]
    return sorted(plain, key=lambda one: float(one["at"]), reverse=True)


def _whose(one: Mapping[str, Any]) -> tuple[Any, ...]:
    owner = one.get("owner")
    owner = owner if isinstance(owner, Mapping) else {}
    return owner.get("who"), owner.get("host"), one.get("mode", "acts")
