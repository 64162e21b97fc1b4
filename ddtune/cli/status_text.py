"""One reading of a host as plain text, a screen's height."""

from __future__ import annotations

import math

from ddtune.cli.report import clean
from ddtune.cli.text import NONE, number, word
from ddtune.engine.model import Incident, LogLine
from ddtune.gpu.model import GpuReading
from ddtune.live.snapshot import ServiceReading, Snapshot
from ddtune.live.status import told

LOG_SHOWN = 5


def status_text(snapshot: Snapshot) -> str:
    """One reading. What a person must not overlook comes first."""
    service = snapshot.service
    marks = "  (simulated)" if snapshot.simulated else ""
    alarms = {alarm.text for alarm in snapshot.alarms}
    lines = [
        *_loud(snapshot),
        *(f"{'ALARM' if alarm.blocks else 'alarm'}: {clean(alarm.text)}" for alarm in snapshot.alarms),
        f"{clean(snapshot.host)}  link {number(snapshot.link.rtt_ms, 0, ' ms')}{marks}",
        f"{word(service.unit)}  {word(service.state)}  profile {word(service.profile)} ({word(service.standing)})  "
        f"last proof {number(service.last_proof_s, 0, ' s ago')}",
        *_health(service),
        *_launcher(snapshot),
        *_produces(service),
        "",
        *_gpus(snapshot),
        *(f"note: {clean(note)}" for note in snapshot.notes if note not in alarms),
        *(line for incident in snapshot.incidents for line in _incident(incident)),
    ]
    if snapshot.txn is not None:
        cause = f" ({word(str(snapshot.txn['cause']))})" if snapshot.txn.get("cause") else ""
        lines.append(f"transaction {word(snapshot.txn.get('op'))}: {word(snapshot.txn.get('state'))}{cause}")
    return "\n".join([*lines, *map(_logged, told(snapshot.log, LOG_SHOWN))])


def _loud(snapshot: Snapshot) -> list[str]:
    """What nobody may overlook: a person has to act."""
    txn = snapshot.txn or {}
    if txn.get("state") not in ("ROLLBACK_FAILED", "HOST_ACTION_REQUIRED"):
        return []
    what = txn.get("action") or "stable does not serve after the rollback and the service was stopped: start it by hand"
    return [f"{txn['state']} ({word(txn.get('cause'))}): {clean(str(what))}"]


def _launcher(snapshot: Snapshot) -> list[str]:
    """What is not proven yet of a service that was adopted while it ran."""
    if snapshot.service.launched is not False:
        return []
    now = f"`ddtune adopt {clean(snapshot.host)} --drill now` restarts it at once, gated"
    return [f"launcher unproven until the next restart: this start did not go through it; {now}"]


def _health(service: ServiceReading) -> list[str]:
    why = f": {clean(service.health_why)}" if service.health_why else ""
    phase = f"  phase {service.phase}" if service.phase else ""
    of = service.schedulers_expected
    alive = "" if service.schedulers is None or of is None else f"  schedulers {service.schedulers} of {of}"
    return [f"{service.health}{why}{phase}{alive}"]


def _produces(service: ServiceReading) -> list[str]:
    source = f" (by its {service.accept_source})" if service.accept_length is not None and service.accept_source else ""
    limit = f" of {service.max_running}" if service.max_running is not None else ""
    lines = [
        f"tok/s {number(service.tokens_per_s)}  accept length {number(service.accept_length, 2)}{source}  "
        f"running {number(service.running)}{limit}  queued {number(service.queued)}"
    ]
    if service.frozen:
        names = ", ".join(f"{name.replace('_', ' ')} {number(getattr(service, name), 2)}" for name in service.frozen)
        lines.append(f"as it was before the engine was idle: {names}")
    return lines


def _gpus(snapshot: Snapshot) -> list[str]:
    if not snapshot.gpus:
        return ["no GPU reading"]
    return [" #  power W / limit   util %  DRAM %  tensor %  memory GiB  °C", *map(_gpu, snapshot.gpus)]


def _gpu(gpu: GpuReading) -> str:
    memory = None if gpu.memory_used_mib is None else gpu.memory_used_mib / 1024
    marks = [
        *(["LOST"] if gpu.lost else []),
        *(["MIG"] if gpu.mig else []),
        *(gpu.throttle or ()),
    ]
    return (
        f"{gpu.index:2}  {number(gpu.power_w):>7} / {number(gpu.power_limit_w):<6} {number(gpu.util):>6}  "
        f"{number(gpu.dram_util):>6}  {number(gpu.tensor_util):>8}  {number(memory, 1):>10}  "
        f"{number(gpu.temperature_c):>3}" + "".join(f"  {mark}" for mark in marks)
    )


def _incident(incident: Incident) -> list[str]:
    where = [
        *([word(incident.rank)] if incident.rank else []),
        *([f"GPU {incident.gpu}"] if incident.gpu is not None else []),
        *([incident.phase] if incident.phase else []),
        *([f"after {_span(incident.elapsed_s)}"] if incident.elapsed_s is not None else []),
        incident.confidence,
    ]
    said = f": {clean(incident.evidence[0].text)}" if incident.evidence else ""
    more = [incident.note, *(f"differs from stable: {change}" for change in incident.changed), incident.action or ""]
    return [f"incident: {incident.cause} ({', '.join(where)}){said}", *(f"  {clean(one)}" for one in more if one)]


def _logged(line: LogLine) -> str:
    times = f"{line.count} × " if line.count > 1 else ""
    trace = f"  (and {line.folded} lines of a trace)" if line.folded else ""
    return (
        f"{line.severity} {line.source}{' ' + word(line.rank) if line.rank else ''}: {times}{clean(line.text)}{trace}"
    )


def _span(seconds: float) -> str:
    if not math.isfinite(seconds):
        return NONE
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds:.0f} s"
