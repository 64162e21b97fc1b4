"""The signs of life of watches, as the host keeps them."""

from __future__ import annotations

import json
from typing import Any

from ddtune.onhost import verbs_watch
from tests.unit.onhost_helper.host import Host


def _owner(who: str, pid: int = 1) -> dict[str, Any]:
    return {"who": who, "host": "box", "pid": pid}


def _beat(host: Host, owner: dict[str, Any], **more: Any) -> None:
    assert host.ok("watching", owner=owner, every_s=60, **more)


def _kept(host: Host) -> list[tuple[str, int, str]]:
    path = host.state_file("watch.json")
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    return [(one["owner"]["who"], one["owner"]["pid"], one["mode"]) for one in (found, *found["others"])]


def test_each_watch_has_its_own_sign_of_life(host: Host) -> None:
    host.adopted()
    _beat(host, _owner("ada"))
    _beat(host, _owner("eve"), mode="dry")
    _beat(host, _owner("ada", 2), mode="tells")
    assert _kept(host) == [("ada", 2, "tells"), ("eve", 1, "dry"), ("ada", 1, "acts")]
    _beat(host, _owner("ada", 3))
    assert _kept(host)[0] == ("ada", 3, "acts"), "what is started anew takes the place of its own"
    assert len(_kept(host)) == 3
    _beat(host, _owner("ada", 1), over=True)
    assert len(_kept(host)) == 3, "the one before it has no say"
    for owner in (_owner("ada", 3), _owner("eve"), _owner("ada", 2)):
        _beat(host, owner, over=True)
    assert _kept(host) == []


def test_what_is_remembered_has_a_bound(host: Host) -> None:
    host.adopted()
    for number in range(verbs_watch.WATCHERS + 2):
        _beat(host, _owner(f"u{number}"))
    assert len(_kept(host)) == verbs_watch.WATCHERS
    path = host.state_file("watch.json")
    found = json.loads(path.read_text())
    old = {**found, "others": [{**one, "at": one["at"] - verbs_watch.FORGOTTEN_S} for one in found["others"]]}
    path.write_text(json.dumps(old))
    _beat(host, _owner("ada"))
    assert [who for who, _, _ in _kept(host)] == ["ada", f"u{verbs_watch.WATCHERS + 1}"]
