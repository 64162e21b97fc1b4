"""The helper's verbs that keep reference answers: small files, one for each engine that was asked."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from . import releases, schema, store
from .context import Answer, Host
from .room import check_room

MAX_BYTES = 512 * 1024
MOST = 16
"""Files at most; the oldest go first."""

KEY = schema.mapping(schema.name, schema.word(4096), 16)
GOLDEN: schema.Fields = {"key": KEY}
PUT_GOLDEN: schema.Fields = {
    "key": KEY,
    "golden": schema.document(MAX_BYTES),
    "text": schema.cleaned(1000),
    "owner": schema.maybe(schema.OWNER, {}),
}


def golden(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """The reference answers of the engine that ``key`` names, or null."""
    paths = host.adopted(unit)
    found = store.read_json(f"{paths.golden_dir}/{_name(fields['key'])}")
    return {"golden": found if found and found.get("key") == fields["key"] else None}


def put_golden(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Keeps reference answers in the place of older ones of the same engine, and says so in the history."""
    paths = host.adopted(unit)
    body = {**fields["golden"], "key": fields["key"]}
    event = {"op": None, "event": "golden", "outcome": "made", "cause": None, "owner": fields["owner"]}
    with store.locked(paths):
        check_room(paths.state)
        os.makedirs(paths.golden_dir, mode=0o755, exist_ok=True)
        path = f"{paths.golden_dir}/{_name(fields['key'])}"
        store.write_json(path, body)
        _forget_oldest(paths.golden_dir)
        releases.add_history(paths, {**event, "text": fields["text"]})
    return {"golden": os.path.basename(path), "bytes": os.path.getsize(path)}


def _name(key: Mapping[str, str]) -> str:
    text = json.dumps(dict(key), sort_keys=True, separators=(",", ":"))
    return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def _forget_oldest(folder: str) -> None:
    kept = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    kept.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in kept[MOST:]:
        store.remove(entry.path)
