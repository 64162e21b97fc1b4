"""ddtune against a real SGLang, as its users run it: the tests go through one service's life, in this order."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from tests.contract import held
from tests.e2e.guest import wait_until
from tests.e2e.operator import HOST
from tests.engine.service import Service
from tests.engine.steps import Steps, parts
from tests.engine.unit import MODEL, UNIT, argv

# The first one waits for the installation.
pytestmark = pytest.mark.timeout(1500)

STABLE = ("4", str(MODEL))
PASSED = {"process_facts", "verbatim_copy", "agreement", "detectors", "concurrency_4", "soak"}


@pytest.fixture
def stable(service: Service) -> Service:
    """The service on what was committed; a test that finds it elsewhere does not run."""
    if not service.runs(*STABLE):
        pytest.skip("an earlier step did not leave smol4 running")
    return service


def test_adopt_restarts_nothing(service: Service, steps: Steps) -> None:
    before = service.invocation()
    with steps.step("adopt") as seen:
        answer = service.operator.run("adopt", HOST, "--json", timeout=600)
        assert answer.code == 0, answer
    found = answer.json
    assert (found["profile"], found["standing"]) == ("smol8", "adopted"), found
    assert service.invocation() == before
    assert service.guest.main_argv(UNIT) == argv(service.guest.api_port)
    seen.append("smol8, gated in place")


def test_status_tells_idle_from_busy(service: Service, steps: Steps) -> None:
    with steps.step("status, idle and under load") as seen:
        idle = service.status()["service"]
        assert (idle["profile"], idle["running"], idle["queued"]) == ("smol8", 0, 0), idle
        assert idle["health"] in ("idle", "serving")
        with service.load(12):
            busy = wait_until("all places are taken", lambda: _full(service, running=8), 60)
        assert (busy["running"], busy["queued"]) == (8, 4), busy
        # An engine that other tests starve counts its tokens seldom: busy, and never dead.
        assert busy["health"] in ("serving", "busy"), busy
        assert busy["tokens_per_s"] > 5
        assert busy["graphs_in_use"] is not True
        assert busy["accept_length"] is None
        seen.append(f"8 running, 4 queued, {busy['tokens_per_s']:.0f} tok/s")


def _full(service: Service, running: int) -> Any:
    found = service.status()["service"]
    return found if found["running"] == running and found["queued"] and found["tokens_per_s"] else None


def test_the_running_engine_keeps_the_contract(service: Service, steps: Steps) -> None:
    """What its answers are read as, by the assertions that recorded and simulated ones go through."""
    sampling = {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}
    with steps.step("the contract, by this engine's own answers"):
        held.completion(service.post("/generate", {"text": "A lake", "sampling_params": sampling}), speculates=False)
        asked = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Say something."}]}
        held.chat(service.post("/v1/chat/completions", asked))
        held.refusal(service.post("/generate", {"text": 5}))
        held.refusal(service.post("/generate", {"text": "x " * 9000}))
        held.loads(service.get("/v1/loads"))
        held.info(service.get("/server_info"))
        held.scrape(service.get("/metrics"), speculates=False)


def test_what_the_build_refuses_costs_no_outage(service: Service, steps: Steps) -> None:
    before = service.invocation()
    with steps.step("a flag that the build refuses: nothing stops") as seen:
        code, answer = service.switch("unknown", "--force")
    assert (code, answer["outcome"], answer["cause"]) == (7, "refused", "bad_flags"), answer
    assert "invalid choice: 'best-first'" in json.dumps(answer)
    assert service.invocation() == before
    seen.append("exit 7, bad_flags")


def test_a_sound_profile_commits(service: Service, steps: Steps) -> None:
    dry = service.operator.run("switch", HOST, "smol4", "--dry-run", "--json", timeout=300).json
    assert len(dry["gate"]) >= 4, dry
    before = service.invocation()
    with steps.step("switch max_running 8 → 4") as seen:
        code, answer = service.switch("smol4")
        assert (code, answer["outcome"], answer["cause"]) == (0, "committed", None), json.dumps(answer)
        seen.append(f"committed: {parts(answer['phases'])}")
    assert set(answer["gate"]) == PASSED
    assert {check["verdict"] for check in answer["gate"].values()} == {"pass"}
    assert "stable itself solves 0 of 1" in answer["not_planned"]["coding"]
    assert service.runs(*STABLE)
    assert service.invocation() != before
    with service.load(6):
        busy = wait_until("all places are taken", lambda: _full(service, running=4), 60)
    assert busy["queued"] == 2, "the new limit holds"


def test_a_start_that_fails_rolls_back(stable: Service, steps: Steps) -> None:
    with steps.step("a flag that only a start finds bad, forced: rolls back") as seen:
        code, answer = stable.switch("starved", "--force")
        assert (code, answer["outcome"], answer["cause"]) == (3, "rolled_back", "oom_weights"), answer
        seen.append(f"{answer['cause']}: {parts(answer['phases'])}")
    assert any("no GPU memory for the KV cache" in line["text"] for line in answer["evidence"]), answer["evidence"]
    assert stable.runs(*STABLE)


def test_noise_in_the_weights_rolls_back(stable: Service, steps: Steps) -> None:
    with steps.step("noise in three tensors: rolls back") as seen:
        code, answer = stable.switch("noisy")
        assert (code, answer["outcome"]) == (3, "rolled_back"), answer
        assert answer["cause"] in ("wrong_output", "garbage_output")
        seen.append(f"{answer['cause']}: {parts(answer['phases'])}")
    assert stable.runs(*STABLE)


def test_a_frozen_server_rolls_back(stable: Service, steps: Steps) -> None:
    with steps.step("HTTP frozen in a trial: rolls back") as seen:
        trial = stable.begin("smol8", "--force")
        stable.wait_gate()
        stable.guest.ssh(["kill", "-STOP", stable.main_pid()])
        began = time.monotonic()
        wait_until("the host decides", lambda: stable.txn().get("state") == "ROLLED_BACK", 300)
        seen.append(f"decided after {time.monotonic() - began:.0f}")
        answer = json.loads(trial.communicate(timeout=600)[0])
        assert (trial.returncode, answer["outcome"], answer["cause"]) == (3, "rolled_back", "hang"), answer
        seen.append(f"{answer['cause']}: {parts(answer['phases'])}")
    assert stable.runs(*STABLE)


def test_a_reboot_in_mid_trial_lands_on_stable(stable: Service, steps: Steps) -> None:
    with steps.step("power cut in a trial: boots into stable") as seen:
        trial = stable.begin("smol8", "--force")
        op = stable.txn()["op"]
        wait_until("its process is there", lambda: stable.max_running() == "8", 30)
        stable.guest.power_cut()
        stable.guest.boot()
        stable.wait_ready()
        seen.append("the next boot started smol4")
        out, _ = trial.communicate(timeout=600)
        assert trial.returncode in (3, 5), out
    assert stable.runs(*STABLE)
    assert stable.history(op) == [("rolled_back", "killed")]


def test_a_death_in_probation_is_seen_and_goes_to_previous(stable: Service, steps: Steps) -> None:
    with steps.step("scheduler killed in probation: seen, previous starts") as seen:
        (scheduler,) = stable.processes("sglang::scheduler")
        stable.guest.ssh(["kill", "-9", scheduler])
        status = wait_until("status says so", lambda: _dead(stable), 60)
        incident = status["incidents"][-1]
        assert any("crashed with exit code -9" in line["text"] for line in incident["evidence"]), incident
        seen.append(f"status: {status['service']['health']}, {incident['cause']}")
        stable.wait_ready()
    assert stable.max_running() == "8"
    assert stable.status()["service"]["profile"] == "smol8"


def _dead(service: Service) -> Any:
    status = service.status()
    return status if status["service"]["health"] in ("dead", "down") and status["incidents"] else None


def test_unadopt_leaves_nothing(service: Service, steps: Steps) -> None:
    before = service.invocation()
    with steps.step("unadopt"):
        answer = service.operator.run("unadopt", HOST, "--json")
        assert answer.code == 0, answer
    assert service.invocation() == before
    assert "ddtune" not in service.guest.show("DropInPaths", UNIT)
    left = [path for path in ("/var/lib/ddtune", "/usr/local/lib/ddtune", "/usr/local/libexec/ddtune-host")
            if os.path.exists(service.guest.file(path))]  # fmt: skip
    assert left == []
    assert service.guest.ready()
