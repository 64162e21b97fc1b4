"""The helper's verbs that add to what is kept of a unit, and start nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import release_rules, releases, schema, store
from .context import Answer, Host, RefusalError, group_id
from .verbs_read import matching, read_base

RELEASE = schema.record(
    {
        "argv": schema.many(schema.word(), 2000),
        "cwd": schema.path,
        "env_set": schema.mapping(schema.env_name, schema.word(), 500),
        "env_unset": schema.many(schema.env_name, 500),
        "schema": schema.integer(1, 1000),
    }
)
META = schema.record(
    {
        "profile": schema.maybe(schema.name),
        "axes": schema.maybe(schema.document(), {}),
        "created": schema.maybe(schema.number(0, 1e11)),
        "by": schema.maybe(schema.text(300)),
        "expect": schema.maybe(schema.document(), {}),
        "build": schema.maybe(schema.text(300)),
    }
)

PUT_RELEASE: schema.Fields = {"release": RELEASE, "meta": schema.maybe(META, {})}
JUDGED: schema.Fields = {
    "ok": schema.flag,
    "inconclusive": schema.maybe(schema.flag, False),
    "text": schema.cleaned(1000),
    "owner": schema.maybe(schema.OWNER, {}),
}
RECORD: schema.Fields = {"entry": schema.document(64 * 1024)}


def said(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``META`` was sent."""
    return {name: value for name, value in meta.items() if value is not None}


def put_release(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Keeps a release, its keys filled in from the base, and answers the name that it has on this host."""
    paths = host.adopted(unit)
    site = store.read_json(paths.site) or {}
    gid = group_id(str(site.get("user") or ""), str(site.get("group") or ""))
    meta = said(fields["meta"])
    with store.locked(paths):
        try:
            release = release_rules.completed(fields["release"], read_base(paths))
            sha = releases.put(paths, release, meta, gid)
        except releases.ReleaseError as error:
            raise RefusalError("unknown", str(error)) from None
    mode = os.stat(paths.release(sha)).st_mode & 0o777
    if mode != 0o440:
        raise RefusalError("drift", f"release {sha[:12]} has mode {mode:o} on the host instead of 440")
    return {"release": sha}


def record(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Adds one outcome to what the host knows; one of an operation that is there already is left out."""
    paths = host.adopted(unit)
    with store.locked(paths):
        return {"added": releases.add_envelope(paths, fields["entry"])}


def judged(host: Host, unit: str, fields: Mapping[str, Any]) -> Answer:
    """Notes that what runs was judged in place, on this boot and this engine; ``inconclusive`` where not to an end."""
    paths = host.adopted(unit)
    process = host.running(unit)
    sha = matching(paths, process)[0] if process else None
    outcome = "passed" if fields["ok"] else "inconclusive" if fields["inconclusive"] else "failed"
    event = {"op": None, "event": "judged", "outcome": outcome, "cause": None, "owner": fields["owner"]}
    with store.locked(paths):
        to = {"profile": releases.profile(paths, sha), "release": sha}
        releases.add_history(paths, {**event, "to": to, "text": fields["text"]})
    return {}
