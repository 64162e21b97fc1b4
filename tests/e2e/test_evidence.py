"""What is known after a rollback, packed for a ticket; and the way back by hand, with ddtune gone."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from tests.e2e.guest import CHECKOUT, wait_until
from tests.e2e.operator import HOST
from tests.e2e.service import Service
from tests.e2e.unit import UNIT

pytestmark = pytest.mark.timeout(300)
KEY = "sk-no-one-may-see-this"


@pytest.fixture(scope="module")
def failed(service: Service) -> tuple[Service, str]:
    """A service that has gone back from b12, and the operation's name."""
    code, answer = service.switch("b12", "--force")
    assert (code, answer["cause"]) == (3, "illegal_memory_access"), answer
    line = "Receive: obj=GenerateReqInput(rid='1', text='my secret prompt', input_ids=None)"
    for said in (line, f"Authorization: Bearer {KEY}"):
        entry = f"MESSAGE={said}\nOBJECT_SYSTEMD_UNIT={UNIT}\n"
        service.guest.console(["logger", "--journald"], entry.encode())
    return service, str(answer["op"])


def test_the_tar_tells_what_happened_and_what_is_not_in_it(failed: tuple[Service, str], tmp_path: Path) -> None:
    service, op = failed
    out = tmp_path / "ticket.tar.gz"
    answer = service.operator.run("evidence", HOST, op, "--out", str(out), "--json", timeout=120)
    assert answer.code == 0, answer
    assert out.stat().st_mode & 0o777 == 0o600
    with tarfile.open(fileobj=io.BytesIO(out.read_bytes())) as archive:
        files = {
            Path(entry.name).name: (archive.extractfile(entry) or io.BytesIO()).read().decode()
            for entry in archive.getmembers()
        }
    assert set(files) >= {
        "manifest.json", "timeline.txt", "journal-unit.log", "journal-kernel.log", "journal-guard.log",
        "release-before.json", "release-tried.json", "history.json", "txn.json", "quarantine.json", "readings-now.json",
        "answers.jsonl", "readings.jsonl",
    }  # fmt: skip
    manifest = json.loads(files["manifest.json"])
    assert (manifest["op"], manifest["host"], manifest["unit"]) == (op, HOST, UNIT)
    assert sorted([*manifest["contents"], "manifest.json"]) == sorted(files) == answer.json["contents"]
    assert any("canaries" in line for line in manifest["left_out"])
    assert "illegal memory access" in files["journal-unit.log"].lower()
    timeline = files["timeline.txt"]
    order = [timeline.index(word) for word in ("armed", "swapped", "rolled_back")]
    assert order == sorted(order)
    tried, before = json.loads(files["release-tried.json"]), json.loads(files["release-before.json"])
    assert tried["argv"][tried["argv"].index("--speculative-ddtree-budget") + 1] == "12"
    assert before["meta"]["profile"] == "b8-nvls"
    assert len(json.loads(files["readings-now.json"])["gpus"]) == 8
    readings = [json.loads(line) for line in files["readings.jsonl"].splitlines()]
    assert len(readings[-1]["power_w"]) == 8
    history = json.loads(files["history.json"])
    assert history[0]["at"] - 300 < readings[0]["at"] <= readings[-1]["at"] < history[-1]["at"] + 60
    answers = [json.loads(line) for line in files["answers.jsonl"].splitlines()]
    assert {"baseline", "rollback"} <= {one["stage"] for one in answers}
    (canary,) = [one for one in answers if one.get("source") == "guard"]
    assert canary["right"]
    assert canary["expect"] in canary["text"]
    copied = next(one for one in answers if one["stage"] == "baseline" and one.get("text"))
    assert copied["prompt"]
    assert copied["at"] < canary["at"]
    assert "Receive: obj=[the rest" in files["journal-unit.log"]
    assert manifest["redacted"]["requests"] >= 1
    assert manifest["redacted"]["keys"] >= 1
    for text in files.values():
        assert "my secret prompt" not in text
        assert KEY not in text


def test_an_operation_that_never_was_is_refused(failed: tuple[Service, str]) -> None:
    service, op = failed
    answer = service.operator.run("evidence", HOST, "9999-nothing", "--json")
    assert answer.code == 7, answer
    assert op in answer.json["error"]["message"], "the last one is named"
    assert not list(service.operator.folder.glob("*.tar.gz"))


def test_back_by_hand_with_ddtune_gone(failed: tuple[Service, str]) -> None:
    """A trial is under way, its operator's machine dies, and somebody at the host's own console brings stable back."""
    service, _ = failed
    switching = service.operator.start("switch", HOST, "b16-eager", "--yes", "--json")
    wait_until("the trial has begun", lambda: service.txn().get("state") == "TRIAL", 60)
    switching.kill()
    switching.communicate()
    done = service.guest.console(["/usr/local/sbin/ddtune-rollback"], timeout=120)
    assert b"runs b8-nvls" in done.stdout, done
    assert service.runs("8")
    assert service.txn()["cause"] == "operator_request"


def test_an_upgrade_renews_the_programs_and_restarts_nothing(service: Service) -> None:
    guest, operator = service.guest, service.operator
    pyz = "/usr/local/lib/ddtune/1/ddtune-onhost.pyz"
    guest.console(["sh", "-c", f"printf '\\n' >>{pyz}"])
    before = service.invocation()
    said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
    assert said["programs"]["mend"] == f"ddtune adopt {HOST} --upgrade"
    answer = operator.run("adopt", HOST, "--upgrade", "--json")
    assert (answer.code, answer.json["installed"]) == (0, True), answer
    assert operator.run("adopt", HOST, "--upgrade", "--json").json["installed"] is False
    assert service.invocation() == before
    assert service.status()["service"]["profile"] == "b8-nvls"


def test_k5_16_after_a_reboot_the_service_is_looked_at_again(service: Service) -> None:
    guest, operator = service.guest, service.operator
    guest.power_off()
    guest.boot()
    service.wait_ready()
    said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
    assert said["since boot"]["ok"] is False
    assert said["since boot"]["mend"] == f"ddtune gate {HOST}"
    assert said["launcher"]["ok"], "the boot went through the launcher"
    assert operator.run("gate", HOST, "--quick", timeout=120).code == 0
    said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
    assert said["since boot"]["ok"]


def test_another_build_of_the_engine_is_noticed(service: Service) -> None:
    """What was judged on one build is unproven on the next, and the host's record says when it changed."""
    guest, operator = service.guest, service.operator
    standin = CHECKOUT / "ddtune/sim/standin"
    guest.console(["sed", "-i", "s/^Version: .*/Version: 0.5.99/", f"{standin}/sglang-0.5.23.dist-info/METADATA"])
    guest.console(["touch", f"{standin}/sglang"])
    said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
    assert said["engine build"]["ok"] is False
    assert "0.5.99" in said["engine build"]["seen"]
    # Its own dialect is to be looked at as well, and a plan says so too; doing it is one line.
    assert said["dialect"]["ok"] is False
    assert "0.5.99" in said["dialect"]["seen"]
    (drafted,) = (operator.folder / "dialects").glob("site-*.toml")
    assert said["dialect"]["mend"] == f"edit {drafted}"
    planned = operator.run("switch", HOST, "b16-eager", "--dry-run", "--json", timeout=120)
    assert [one for one in planned.json["findings"] if "was last looked at on" in one["text"]]
    new = said["engine build"]["seen"].partition(" is installed")[0]
    drafted.write_text(re.sub(r"(?m)^build = .*", f'build = "{new}"', drafted.read_text()))
    said = {one["name"]: one for one in operator.run("doctor", HOST, "--json").json["symptoms"]}
    assert said["dialect"]["ok"] is True
    assert "engine_changed" not in [line["event"] for line in service.history()], "a look is not written down"
    operator.run("gate", HOST, "--quick", timeout=120)
    assert [line["event"] for line in service.history()][-2:] == ["engine_changed", "judged"]
