"""A file that the unit reads variables from, edited by hand on a real host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.guest import booted
from tests.e2e.operator import HOST, Operator
from tests.e2e.service import LIMITS, Service, install
from tests.e2e.unit import UNIT

FILE = "/etc/sglang/engine.env"
TOKEN = "hf-4711-do-not-tell"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_edit_is_named_stops_a_switch_and_is_taken_on_request(tmp_path: Path) -> None:
    with booted(tmp_path) as guest:
        install(guest)
        guest.put(FILE, f"HF_HOME=/models\nHF_TOKEN={TOKEN}\n")
        guest.put(f"/etc/systemd/system/{UNIT}.d/10-env.conf", f"[Service]\nEnvironmentFile={FILE}\n")
        guest.console(["systemctl", "daemon-reload"])
        guest.console(["systemctl", "restart", UNIT])
        service = Service(guest, Operator(guest, tmp_path / "operator", LIMITS))
        service.wait_ready()
        assert service.operator.run("adopt", HOST, "--json", timeout=120).code == 0
        assert service.status()["notes"] == []

        invocation = service.invocation()
        edited = f"HF_HOME=/elsewhere\nHF_TOKEN={TOKEN}\n"
        guest.put(FILE, edited)
        assert any(f"{FILE} was edited (HF_HOME=)" in note for note in service.status()["notes"])
        code, answer = service.switch("b16-eager")
        assert (code, answer["cause"]) == (7, "drift"), answer
        assert service.invocation() == invocation
        assert guest.file(FILE).read_text() == edited, "somebody's edit is theirs"
        assert TOKEN not in guest.file(f"/var/lib/ddtune/{UNIT}/unit-files.json").read_text()

        taken = service.operator.run("adopt", HOST, "--upgrade")
        assert (taken.code, f"Taken as it is now: {FILE} was edited (HF_HOME=)." in taken.out) == (0, True), taken
        assert service.invocation() == invocation, "taking it restarts nothing"
        code, answer = service.switch("b16-eager")
        assert (code, answer["outcome"]) == (0, "committed"), answer
        assert guest.main_env()["HF_HOME"] == "/elsewhere"
