"""The line that is always on top, and the loud one under it: pure drawing."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from ddtune.gpu.reading import node_power_w
from ddtune.tui import words
from ddtune.tui.view import LOUD_STATES, View, is_stale, oldest_s

HEALTH_STYLE = {
    "serving": f"bold {words.GOOD}",
    "idle": words.GOOD,
    "starting": f"bold {words.NOTE}",
    "busy": f"bold {words.NOTE}",
    "dead": words.LOUD,
    "down": words.LOUD,
    "unknown": f"bold {words.WARN}",
}


_UNWELL = frozenset(("dead", "down", "busy", "unknown"))


@dataclass(frozen=True)
class _Item:
    """A part of the line; those of the highest ``rank`` go first when it is too long, none of rank 0 does."""

    text: str
    style: str = ""
    rank: int = 0
    short: str = ""


def status_line(view: View, width: int) -> Content:
    """Host, link, data age, lock, profile, standing and health; the node's sums where there is room."""
    items = [item for item in _items(view) if item.text]
    for rank in range(9, 0, -1):
        if _length(items) <= width:
            break
        items = [
            _Item(item.short, item.style) if item.rank == rank and item.short else item
            for item in items
            if item.rank != rank or item.short
        ]
    drawn = words.line(*(part for item in items for part in (("  ", ""), (item.text, item.style))))[1:]
    return words.fit(drawn, width)


def _length(items: list[_Item]) -> int:
    return sum(len(item.text) + 2 for item in items) - 1


def _items(view: View) -> list[_Item]:
    snapshot, service, link = view.snapshot, view.snapshot.service, view.snapshot.link
    host = words.safe(snapshot.host)
    oldest = oldest_s(snapshot)
    stale = is_stale(snapshot, oldest)
    watts = node_power_w(snapshot.gpus)
    health = service.health.upper() if view.link_up else f"was {service.health}"
    if link.state == "up":
        rtt = "link up" if link.rtt_ms is None else f"link {link.rtt_ms:.0f} ms"
        shown = _Item(rtt, "", 6, rtt.removeprefix("link "))
    else:
        shown = _Item(f"LINK {link.state.upper()}", words.LOUD)
    age = words.age(oldest)
    data = _Item(f"STALE {age}", f"bold {words.WARN}") if stale else _Item(f"data {age}", "", 6, age)
    standing = words.word(service.standing) if service.standing else ""
    proof = f"last proof {words.age(service.last_proof_s)}" if service.last_proof_s is not None else ""
    return [
        _Item(f" {host} ", "bold reverse", 1, f" {words.clip(host, 14)} "),
        _Item("simulated" if snapshot.simulated else "", words.NOTE, 3, "sim"),
        shown,
        data,
        _lock(view),
        _Item("PAUSED" if view.paused else "", f"bold {words.WARN}"),
        _Item(words.word(service.profile), "bold"),
        _Item(standing, "", 2, words.clip(standing, 4)),
        _Item(health, HEALTH_STYLE.get(service.health, "bold") if view.link_up else words.MUTED),
        _Item(f"{words.number(service.tokens_per_s)} tok/s", "", 7),
        _Item(f"accept {words.number(service.accept_length, 2)}", "", 7),
        _Item(f"{words.number(watts)} W", "", 8),
        _Item(proof, words.MUTED, 9),
    ]


def _lock(view: View) -> _Item:
    if view.replay is not None:
        one = view.replay
        where = f"{words.minutes(one.position_s)} of {words.minutes(one.length_s)}"
        pace = f"×{one.speed:g}" if one.playing else "paused"
        return _Item(f"REPLAY {where} {pace}", f"bold {words.NOTE}", 4, f"REPLAY {words.minutes(one.position_s)}")
    if view.unlocked_s is None:
        return _Item("READ-ONLY", "bold", 4, "RO")
    if view.unlocked_s == words.INF:
        return _Item("WRITE", f"bold {words.WARN}")
    return _Item(f"WRITE {words.age(view.unlocked_s)}", f"bold {words.WARN}", 4, "WRITE")


def banner(view: View, width: int) -> Content | None:
    """What comes first: a lost link, a transaction, a bad end or an incident; None when there is nothing to say."""
    text, style = _loudest(view)
    if not text:
        return None
    return words.line((words.filled(f" {words.clip(text, width - 1)}", width), style))


def _loudest(view: View) -> tuple[str, str]:
    snapshot, txn = view.snapshot, view.snapshot.txn or {}
    state = str(txn.get("state"))
    if state in LOUD_STATES:
        action = txn.get("action") or str(txn.get("cause") or "a person must act").replace("_", " ")
        return f"{LOUD_STATES[state]}: {words.safe(action)} ({words.word(txn.get('op'))})", words.LOUD
    if not view.link_up:
        return _link(view), words.LOUD if snapshot.link.state != "connecting" else words.BUSY
    if view.txn is not None:
        return _running(view), words.BUSY
    if view.run is not None and view.run.active:
        return f"{view.run.kind} {view.run.target or ''} is being prepared here; nothing is touched yet", words.BUSY
    if snapshot.incidents and snapshot.service.health not in ("serving", "idle"):
        incident = snapshot.incidents[-1]
        where = f" on {words.safe(incident.rank)}" if incident.rank else ""
        return f"INCIDENT {words.safe(incident.cause)}{where} at {words.clock(incident.at)}", words.LOUD
    return _standing_alarm(view)


def _standing_alarm(view: View) -> tuple[str, str]:
    """What the GPUs say against a restart, and why the service is not well."""
    alarms, service = view.snapshot.alarms, view.snapshot.service
    for one in sorted(alarms, key=lambda alarm: not alarm.blocks):
        return words.safe(one.text), words.LOUD if one.blocks else words.BUSY
    if service.health in _UNWELL and service.health_why:
        loud = service.health in ("dead", "down")
        return f"{service.health.upper()}: {words.safe(service.health_why)}", words.LOUD if loud else words.BUSY
    return "", ""


def _link(view: View) -> str:
    link = view.snapshot.link
    if link.state == "connecting":
        return f"connecting to {words.safe(view.snapshot.host)} …"
    age = oldest_s(view.snapshot)
    what = "nothing was read yet" if age is None else f"last values are {words.age(age)} old"
    txn = ""
    if view.txn is not None:
        txn = f"; {words.word(view.txn.get('op'))} is the host's to decide"
    return f"LINK {link.state.upper()}: {what}{txn}. {words.safe(link.error or '')}"


def _running(view: View) -> str:
    txn = view.txn or {}
    owner = txn.get("owner") or {}
    who = (
        "this ddtune"
        if view.run and view.run.active
        else f"{words.word(owner.get('who'))}@{words.word(owner.get('host'))}"
    )
    target = txn.get("candidate_profile") or str(txn.get("candidate"))[:12]
    state = str(txn.get("state"))
    if state == "ROLLED_BACK":
        stable, cause = words.word(txn.get("stable_profile")), words.word(txn.get("cause")).replace("_", " ")
        return f"ROLLING BACK to {stable} because {cause}, {words.word(txn.get('op'))} by {who}"
    lease = view.until("lease_until")
    left = "" if lease is None else f", goes back in {words.span(lease)} unless renewed"
    return f"{words.safe(state)} {words.safe(target)}, {words.word(txn.get('op'))} by {who}{left}"
