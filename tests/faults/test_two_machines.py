"""Two operators with two ddtunes on two machines: host names, users, homes and keys of their own, and one host."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.guest import CHECKOUT, booted, wait_until
from tests.e2e.operator import HOST, ended
from tests.faults import broken
from tests.faults.machine import Machine
from tests.faults.site import LIMITS, STABLE, Site, adopted, reached

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
ENDS_S = 200


@dataclass
class Two:
    """The host, and who may change it from where."""

    site: Site
    ada: Machine
    bob: Machine


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folders = [tmp_path_factory.mktemp(name) for name in ("host", "ada", "bob")]
    with adopted(folders[0]) as site, booted(folders[1]) as one, booted(folders[2]) as other:
        yield Two(site, Machine(one, "ada", site.guest, LIMITS), Machine(other, "bob", site.guest, LIMITS))


@pytest.fixture(autouse=True)
def _sound(two: Two) -> None:
    wait_until("the host is sound", two.site.sound, 60)
    two.site.begin()


def _restart(machine: Machine) -> subprocess.Popen[str]:
    return machine.start("restart", HOST, "--yes", "--json")


def _armed(two: Two, machine: Machine, state: str, **facts: bool) -> dict[str, Any]:
    """The transaction of ``machine``'s user, once it stands in ``state``."""
    site = two.site

    def there() -> bool:
        txn = site.txn()
        return (txn.get("owner") or {}).get("who") == machine.user and bool(reached(state, **facts)(txn))

    wait_until(f"{machine.user}'s is {state}", there, 120, 0.01)
    return site.txn()


def test_both_at_once_one_wins_and_the_other_is_told_by_whom(two: Two) -> None:
    answers = [ended(process, ENDS_S) for process in [_restart(two.ada), _restart(two.bob)]]
    assert sorted(answer.code for answer in answers) == [0, 7], answers
    (lost,) = [answer.json for answer in answers if answer.code == 7]
    assert (lost["outcome"], lost["cause"]) == ("refused", "busy")
    won = two.ada if answers[0].code == 0 else two.bob
    assert f"{won.user}@{won.guest.name}" in lost["message"], lost
    (armed,) = [line for line in two.site.lines() if line["event"] == "armed"]
    assert (armed["owner"]["who"], armed["owner"]["host"]) == (won.user, won.guest.name)
    assert two.site.runs(STABLE)


def test_a_machine_that_dies_loses_its_lease_and_then_the_other_is_free(two: Two) -> None:
    site = two.site
    process = _restart(two.ada)
    op = _armed(two, two.ada, "TRIAL", ready=True)["op"]
    frozen = Path(two.ada.guest._cgroup, "cgroup.freeze")
    frozen.write_text("1")
    try:
        refused = two.bob.run("restart", HOST, "--yes", "--json")
        assert (refused.code, refused.json["cause"]) == (7, "busy"), refused
        assert f"ada on {two.ada.guest.name}" in refused.json["message"]
        seen = two.bob.status()["txn"]
        assert (seen["op"], seen["owner"]["who"]) == (op, "ada")
        site.back(op, "lease_lost")
        taken = two.bob.run("restart", HOST, "--yes", "--json")
        assert (taken.code, taken.json["outcome"]) == (0, "committed"), taken
        invocation = site.invocation()
    finally:
        frozen.write_text("0")
    # Awake again, it is told that the host has decided, and changes nothing any more.
    late = ended(process, ENDS_S)
    assert (late.code, late.json["cause"]) == (3, "lease_lost"), late
    assert site.invocation() == invocation
    assert site.txn()["owner"]["who"] == "bob"
    assert [(line["op"] == op, line["event"]) for line in site.lines() if line["event"] in ("armed", "committed")] == [
        (True, "armed"), (False, "armed"), (False, "committed"),
    ]  # fmt: skip


def test_taking_over_is_an_act_of_its_own(two: Two) -> None:
    site = two.site
    process = _restart(two.ada)
    op = _armed(two, two.ada, "TRIAL", ready=True)["op"]
    taken = two.bob.run("abort", HOST, "--json")
    assert taken.code == 0, taken
    late = ended(process, ENDS_S)
    assert (late.code, late.json["cause"]) == (3, "aborted"), late
    site.back(op, "aborted")
    done = two.bob.run("restart", HOST, "--yes", "--json")
    assert (done.code, done.json["outcome"]) == (0, "committed"), done


def test_an_older_helper_is_only_looked_at_until_it_is_renewed(two: Two) -> None:
    site = two.site
    programs = site.guest.console(["cat", broken.PYZ]).stdout
    invocation = site.invocation()
    broken.install(site.guest, ["older"])
    try:
        assert two.ada.status()["service"]["profile"] == "b8-nvls"
        refused = two.ada.run("restart", HOST, "--yes", "--json")
        assert refused.code == 7, refused
        said = json.dumps(refused.json)
        assert "speaks protocol 0, this ddtune 1" in said
        assert f"adopt --upgrade {HOST}" in said
        renewed = two.ada.run("adopt", HOST, "--upgrade", "--json")
        assert renewed.code == 0, renewed
        assert site.guest.console(["cat", broken.PYZ]).stdout == programs
        assert site.invocation() == invocation, "renewing restarts nothing"
        assert two.ada.run("switch", HOST, "b8-nvls", "--dry-run", "--json").code == 0
    finally:
        site.guest.console(["sh", "-c", 'cat >"$0"', broken.PYZ], programs)


def test_an_older_ddtune_only_looks(two: Two) -> None:
    """Bob's machine has a checkout of its own: what is changed in it is seen by nobody else."""
    client = f"{CHECKOUT}/ddtune/host/helper.py"
    invocation = two.site.invocation()
    two.bob.guest.console(["sed", "-i", "s/^_ENTRY = /PROTO = 0\\n&/", client])
    try:
        assert "PROTO = 0\n" in two.bob.guest.console(["cat", client]).stdout.decode()
        assert "PROTO = 0\n" not in Path(client).read_text()
        assert two.bob.status()["service"]["profile"] == "b8-nvls"
        for words in (("restart", "--yes"), ("abort",), ("rollback", "--yes")):
            refused = two.bob.run(words[0], HOST, *words[1:], "--json")
            assert refused.code == 7, refused
            assert "protocol" in json.dumps(refused.json), refused
    finally:
        two.bob.guest.console(["sed", "-i", "/^PROTO = 0$/d", client])
    assert two.site.invocation() == invocation
    assert [line for line in two.site.lines() if line["event"] == "armed"] == []


def test_other_programs_of_the_same_protocol_go_on_together(two: Two) -> None:
    """Bob's ddtune is another version: he is told so, and his switch is carried out by the programs that are there."""
    site = two.site
    programs = site.guest.console(["cat", broken.PYZ]).stdout
    two.bob.guest.console(["sh", "-c", f"echo '# of another version' >>{CHECKOUT}/ddtune/onhost/watch_unit.py"])
    told = {one["name"]: one for one in two.bob.run("doctor", HOST, "--json").json["symptoms"]}
    assert "other programs than this ddtune" in told["programs"]["seen"]
    done = two.bob.run("restart", HOST, "--yes", "--json")
    assert (done.code, done.json["outcome"]) == (0, "committed"), done
    assert site.guest.console(["cat", broken.PYZ]).stdout == programs
