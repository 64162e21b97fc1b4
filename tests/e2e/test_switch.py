"""Whole switches through the command line: each outcome is read back from the host's own process and journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.operator import HOST, Operator
from tests.e2e.service import Service
from tests.e2e.unit import UNIT
from tests.gates import SHORTENED, shorten

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def on_b8(service: Service) -> Service:
    """The service on b8-nvls; brought back there when the last test left it elsewhere."""
    if not service.runs("8"):
        code, answer = service.switch("b8-nvls", "--force")
        assert code == 0, answer
    return service


def test_adopt_restarts_nothing(service: Service) -> None:
    assert service.guest.show("NRestarts") == "0"
    starts = [text for _, text in service.journal() if text.startswith("Started ")]
    assert len(starts) == 1
    assert "zz-ddtune.conf" in service.guest.show("DropInPaths")


def test_status_reads_the_service(on_b8: Service) -> None:
    status = on_b8.status()
    assert status["host"] == HOST
    assert status["service"]["unit"] == UNIT
    assert status["service"]["state"] == "active"
    assert status["service"]["profile"] == "b8-nvls"
    assert status["service"]["accept_length"] == pytest.approx(4.48, abs=0.25)
    assert status["txn"] is None


def test_an_edit_of_the_units_files_is_named_and_theirs_and_taken_on_request(on_b8: Service, tmp_path: Path) -> None:
    """It stops a switch; a restart goes on, and as the user that the unit has now, who could not read what was kept."""
    guest, operator = on_b8.guest, on_b8.operator
    ops = Operator(guest, tmp_path / "ops", ssh="ops@127.0.0.1")
    file, drop_in = f"/etc/systemd/system/{UNIT}", f"/etc/systemd/system/{UNIT}.d/50-mine.conf"
    before = guest.file(file).read_text()
    guest.put("/etc/sudoers.d/ops", "ops ALL=(root) NOPASSWD: ALL\n", "440")
    try:
        edited = before.replace("User=sglang", "User=ops").replace("[Service]", "[Service]\nEnvironment=MINE=1")
        guest.ssh(["sudo", "-n", "tee", file], edited.encode(), user="ops")
        guest.ssh(["sudo", "-n", "systemctl", "daemon-reload"], user="ops")
        guest.put(drop_in, "[Service]\nLimitNOFILE=4096\n")
        guest.console(["rm", "/etc/sudoers.d/ops"])
        (note,) = [note for note in ops.run("status", HOST, "--json").json["notes"] if file in note]
        assert f"{file} was edited; {drop_in} was added" in note
        doctor = operator.run("doctor", HOST, "--json").json["symptoms"]
        line = next(one for one in doctor if one["name"] == "unit files")
        assert f"{file} was edited (Environment=, User=); {drop_in} was added (LimitNOFILE=)" in line["seen"]
        assert "ops ran as root, by sudo" in line["seen"]
        invocation = on_b8.invocation()
        answer = operator.run("switch", HOST, "b16-eager", "--yes", "--force", "--json")
        assert (answer.code, answer.json["cause"]) == (7, "drift"), answer
        assert f"{file} was edited (Environment=, User=)" in answer.json["message"]
        assert f"`ddtune adopt {HOST} --upgrade` takes the files as they are" in answer.json["message"]
        assert on_b8.invocation() == invocation
        guest.console(["rm", drop_in])
        restarted = operator.run("restart", HOST, "--yes", "--json", timeout=150)
        assert (restarted.code, restarted.json["outcome"]) == (0, "committed"), restarted
        assert guest.main_env()["MINE"] == "1"
        assert guest.out(["ps", "-o", "user=", "-p", guest.show("MainPID")]).strip() == "ops"
        taken = operator.run("adopt", HOST, "--upgrade", "--json")
        assert [(one["path"], one["what"], one["settings"]) for one in taken.json["accepted"]] == [
            (file, "edited", ["Environment", "User"])
        ], taken
        assert guest.file(file).read_text() == edited
        assert _readers(on_b8) == "ops"
        assert not [note for note in on_b8.status()["notes"] if file in note]
        assert on_b8.history()[-1]["text"] == f"taken as they are now: {file} was edited (Environment=, User=)"
    finally:
        guest.put(file, before)
    back = operator.run("adopt", HOST, "--json")
    assert [one["path"] for one in back.json["accepted"]] == [file], back
    assert _readers(on_b8) == "sglang", "also where systemd had not read it yet"
    guest.console(["systemctl", "restart", UNIT])
    on_b8.wait_ready()
    assert guest.out(["ps", "-o", "user=", "-p", guest.show("MainPID")]).strip() == "sglang"


def _readers(service: Service) -> str:
    """The group that may read the stable release."""
    return service.guest.out(["stat", "-Lc", "%G", f"/var/lib/ddtune/{UNIT}/stable/release.json"]).strip()


def test_eager_commits(on_b8: Service, numbers: dict[str, float]) -> None:
    """There behind the whole gate of the shipped profiles, and back behind a short one."""
    before = on_b8.invocation()
    for name in SHORTENED:
        (on_b8.operator.profiles / f"{name}.toml").unlink()
    code, answer = on_b8.switch("b16-eager")
    shorten(on_b8.operator.profiles, *SHORTENED)
    assert (code, answer["outcome"], answer["cause"]) == (0, "committed", None), answer
    assert answer["from"]["profile"] == "b8-nvls"
    assert answer["to"] == answer["stable"]
    assert answer["to"]["profile"] == "b16-eager"
    assert set(answer["phases"]) >= {
        "preflight",
        "baseline",
        "upload",
        "arm",
        "drain",
        "stop",
        "start",
        "quick",
        "full",
    }
    assert {check["verdict"] for check in answer["gate"].values()} == {"pass"}
    assert on_b8.budget() == "16"
    assert "disable" in " ".join(on_b8.guest.main_argv()), "graphs are off"
    assert on_b8.invocation() != before
    own_s = [answer["own_s"]]

    on_b8.guest.console(["systemctl", "restart", UNIT])
    on_b8.wait_ready()
    assert on_b8.budget() == "16", "a commit outlives the next start"

    code, answer = on_b8.switch("b8-nvls")
    assert (code, answer["outcome"]) == (0, "committed"), answer
    assert on_b8.budget() == "8"

    # The machine that runs the tests is busy with both sides: the better of two is nearer to what it costs.
    own_s.append(answer["own_s"])
    numbers["own_s of a committed switch"] = min(own_s)


def test_known_bad_is_refused(on_b8: Service) -> None:
    before = on_b8.invocation()
    code, answer = on_b8.switch("b12")
    assert (code, answer["outcome"], answer["cause"]) == (7, "refused", "known_bad"), answer
    assert on_b8.invocation() == before
    assert on_b8.budget() == "8"


@pytest.mark.slow
def test_illegal_memory_access_rolls_back(on_b8: Service) -> None:
    code, answer = on_b8.switch("b12", "--force")
    assert (code, answer["outcome"], answer["cause"]) == (3, "rolled_back", "illegal_memory_access"), answer
    assert answer["stable"]["profile"] == "b8-nvls"
    assert any("illegal memory access" in item["text"] for item in answer["evidence"])
    assert on_b8.runs("8")


def test_garbage_rolls_back(on_b8: Service) -> None:
    code, answer = on_b8.switch("b32", "--force")
    assert (code, answer["outcome"]) == (3, "rolled_back"), answer
    assert answer["cause"] in {"garbage_output", "wrong_output", "accept_collapse"}
    assert answer["evidence"]
    assert on_b8.runs("8")


def test_failed_release_is_quarantined(on_b8: Service) -> None:
    """A release that failed here is refused for that, whatever the envelope says."""
    code, answer = on_b8.switch("b32")
    assert (code, answer["outcome"]) == (7, "refused"), answer
    assert answer["cause"] in {"quarantined", "known_bad"}


@pytest.mark.slow
def test_cublas_error_rolls_back(on_b8: Service) -> None:
    code, answer = on_b8.switch("b64", "--force")
    assert (code, answer["outcome"], answer["cause"]) == (3, "rolled_back", "cublas_error"), answer
    assert any("CUBLAS" in item["text"] for item in answer["evidence"])
    assert on_b8.runs("8")
    assert [(line["event"], line["cause"]) for line in on_b8.history()][-1] == ("rolled_back", "cublas_error")


def test_unknown_profile_names_the_nearest(on_b8: Service) -> None:
    answer = on_b8.operator.run("switch", HOST, "b16-eagre", "--yes")
    assert answer.code == 2
    assert "b16-eager" in answer.err
    assert "Traceback" not in answer.err
    assert len(answer.err.strip().splitlines()) <= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "graphs", "code", "outcome"),
    [("mine-graphs", "true", 3, "rolled_back"), ("mine-eager", "false", 0, "committed")],
)
def test_engine_behaves_by_its_flags(on_b8: Service, name: str, graphs: str, code: int, outcome: str) -> None:
    """Two profiles that nobody shipped: budget 14 dies with graphs and serves without."""
    _write_profile(on_b8.operator.profiles / f"{name}.toml", graphs)
    got, answer = on_b8.switch(name, "--force")
    assert (got, answer["outcome"]) == (code, outcome), answer
    assert on_b8.runs("14" if code == 0 else "8")


def _write_profile(path: Path, graphs: str) -> None:
    path.write_text(
        '[axes]\nalgorithm = "ddtree"\nbudget = 14\ntopk = 4\ndraft_window = 2048\n'
        f"graphs = {graphs}\nnvls = true\nmax_running = 128\n[gate]\nconcurrency = [1, 8]\n"
    )


def test_history_says_what_happened(service: Service) -> None:
    ends = [line for line in service.history() if line["event"] in {"committed", "rolled_back"}]
    assert [line["op"] for line in ends] == list(dict.fromkeys(line["op"] for line in ends)), "one end for each op"
    causes = {line["to"]["profile"]: line["cause"] for line in ends}
    assert causes["b32"] in {"garbage_output", "wrong_output", "accept_collapse"}
    assert causes["b16-eager"] is None
