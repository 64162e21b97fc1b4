"""The JSON shape of one snapshot: what ``status --json`` prints and the screen shows."""

from __future__ import annotations

from typing import Any

from ddtune.engine.model import Incident
from ddtune.gpu.model import GpuReading
from ddtune.live.snapshot import ServiceReading, Snapshot


def status_json(snapshot: Snapshot) -> dict[str, Any]:
    """One object, listed in docs/json.md; what is not available is null."""
    return {
        "proto": 1,
        "host": snapshot.host,
        "simulated": snapshot.simulated,
        "at": snapshot.at,
        "link": {"state": snapshot.link.state, "rtt_ms": snapshot.link.rtt_ms, "error": snapshot.link.error},
        "adopted": snapshot.adopted,
        "gpu_source": snapshot.gpu_source,
        "ages": {"gpus": snapshot.ages.gpus, "engine": snapshot.ages.engine, "unit": snapshot.ages.unit},
        "gpus": [_gpu(gpu) for gpu in snapshot.gpus],
        "service": _service(snapshot.service),
        "txn": snapshot.txn,
        "incidents": [_incident(incident) for incident in snapshot.incidents],
        "notes": list(snapshot.notes),
    }


def _gpu(gpu: GpuReading) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "pci": gpu.pci,
        "name": gpu.name,
        "power_w": gpu.power_w,
        "power_limit_w": gpu.power_limit_w,
        "util": gpu.util,
        "memory_used_mib": gpu.memory_used_mib,
        "memory_total_mib": gpu.memory_total_mib,
        "temperature_c": gpu.temperature_c,
        "sm_clock_mhz": gpu.sm_clock_mhz,
        "throttle": None if gpu.throttle is None else list(gpu.throttle),
        "dram_util": gpu.dram_util,
        "tensor_util": gpu.tensor_util,
        "nvlink_rx_mib_s": gpu.nvlink_rx_mib_s,
        "nvlink_tx_mib_s": gpu.nvlink_tx_mib_s,
        "lost": gpu.lost,
    }


def _service(service: ServiceReading) -> dict[str, Any]:
    return {
        "unit": service.unit,
        "state": service.state,
        "health": service.health,
        "last_proof_s": service.last_proof_s,
        "profile": service.profile,
        "release": service.release,
        "standing": service.standing,
        "accept_length": service.accept_length,
        "tokens_per_s": service.tokens_per_s,
        "running": service.running,
        "queued": service.queued,
        "kv_usage": service.kv_usage,
        "cache_hit": service.cache_hit,
        "ttft_p50_s": service.ttft_p50_s,
        "itl_p50_s": service.itl_p50_s,
        "graphs_in_use": service.graphs_in_use,
        "main_pid": service.main_pid,
        "schedulers": service.schedulers,
        "schedulers_expected": service.schedulers_expected,
    }


def _incident(incident: Incident) -> dict[str, Any]:
    return {
        "cause": incident.cause,
        "at": incident.at,
        "rank": incident.rank,
        "gpu": incident.gpu,
        "evidence": [
            {"at": line.at, "source": line.source, "rank": line.rank, "text": line.text} for line in incident.evidence
        ],
    }
