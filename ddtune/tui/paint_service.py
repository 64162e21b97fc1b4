"""The status line and the service panel: pure drawing of one snapshot."""

from __future__ import annotations

from rich.text import Text

from ddtune.live.snapshot import Snapshot
from ddtune.tui import words
from ddtune.tui.paint_gpus import total_w

HEALTH_STYLE = {
    "serving": "bold green",
    "idle": "green",
    "starting": "bold cyan",
    "busy": "bold cyan",
    "dead": "bold white on red",
    "down": "bold white on red",
    "unknown": "bold yellow",
}


def status_line(snapshot: Snapshot, unlocked_s: float | None, width: int) -> Text:
    """Host, link, data age, lock, profile and health, always visible. ``unlocked_s``: None locked, inf writable."""
    service, link = snapshot.service, snapshot.link
    text = Text(no_wrap=True)
    text.append(f" {snapshot.host} ", style="bold reverse")
    if snapshot.simulated:
        text.append(" simulated", style="magenta")
    if link.state == "up":
        text.append(f"  {words.number(link.rtt_ms)} ms" if link.rtt_ms is not None else "  link up")
    else:
        text.append(f"  LINK {link.state.upper()}", style="bold white on red")
    ages = [age for age in (snapshot.ages.gpus, snapshot.ages.engine, snapshot.ages.unit) if age is not None]
    oldest = max(ages) if ages else None
    stale = oldest is None or oldest > words.STALE_TICKS * snapshot.tick_s
    text.append(f"  data {words.age(oldest)}", style="bold yellow" if stale else "")
    if unlocked_s is None:
        text.append("  READ-ONLY", style="bold")
    else:
        left = "" if unlocked_s == float("inf") else f" {words.age(unlocked_s)}"
        text.append(f"  WRITE{left}", style="bold yellow")
    text.append(f"  {words.word(service.profile)} {words.word(service.standing)}", style="bold")
    text.append(f"  {service.health.upper()}", style=HEALTH_STYLE.get(service.health, "bold"))
    if width >= 100:
        text.append(f"  last proof {words.age(service.last_proof_s)}")
        text.append(f"  {words.number(total_w(snapshot))} W")
    return text


def service_lines(snapshot: Snapshot) -> list[Text]:
    """What the service makes and how it stands."""
    service = snapshot.service
    graphs = {True: "in use", False: "off", None: words.NONE}[service.graphs_in_use]
    watts = total_w(snapshot)
    per_token = None if not watts or not service.tokens_per_s else watts / service.tokens_per_s
    ranks = f"{words.number(service.schedulers)} of {words.number(service.schedulers_expected)}"
    first = Text()
    first.append(f"{words.number(service.tokens_per_s)} tok/s", style="bold")
    first.append("   accept length ")
    first.append(words.number(service.accept_length, 2), style="bold")
    first.append(f"   {words.number(watts)} W   {words.number(per_token, 2)} J/tok")
    return [
        first,
        Text(
            f"running {words.number(service.running)} of {words.number(service.max_running)}   "
            f"queued {words.number(service.queued)}   kv {_percent(service.kv_usage)}   "
            f"prefix hit {_percent(service.cache_hit)}"
        ),
        Text(
            f"ttft p50 {words.number(service.ttft_p50_s, 2)} s   itl p50 {words.number(service.itl_p50_s, 3)} s   "
            f"graphs {graphs}   ranks {ranks}"
        ),
        Text(
            f"{words.word(service.unit)} {words.word(service.state)}   restarts {words.number(service.restarts)}   "
            f"stable {words.word(service.stable_profile)}"
        ),
    ]


def _percent(share: float | None) -> str:
    return words.NONE if share is None else f"{100 * share:.0f} %"
