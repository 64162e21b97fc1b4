"""doctor's lines and the ticket's contents, from what was seen to what is said."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from typing import Any

import pytest

from ddtune.config.model import HostConfig
from ddtune.host.errors import Unreachable
from ddtune.rollout.doctor import examine
from ddtune.rollout.doctor_look import Seen
from ddtune.rollout.evidence import pack
from ddtune.rollout.privilege import Privilege
from ddtune.rollout.symptom import Symptom

UNIT = "sglang.service"
PROPS = {
    "LoadState": "loaded", "ActiveState": "active", "SubState": "running", "Type": "simple", "KillMode": "mixed",
    "Restart": "always", "FragmentPath": f"/etc/systemd/system/{UNIT}", "DropInPaths": "", "InvocationID": "i2",
}  # fmt: skip
SERVICE = {
    "props": PROPS,
    "argv": ["/usr/bin/python3", "-m", "sglang.launch_server", "--port", "30000"],
    "same_command": True,
    "port": 30000,
    "environment_files": [],
    "api": {"/metrics": 200, "families": 80},
}
SURVEY: dict[str, Any] = {
    "python": "3.11.2", "boot_id": "b2", "systemd": {"version": "252"}, "units": [{"unit": UNIT}], "unit": UNIT,
    "service": SERVICE, "journal": {"readable": True}, "room": [{"path": "/run", "free_mib": 100, "free_inodes": 9000}],
    "programs": "sha", "site": {"profile": "b8", "build": "0.5.23+a"},
}  # fmt: skip
SEEN = Seen(
    host="b300",
    config=HostConfig("b300", "b300"),
    user="ops",
    host_key="ssh-ed25519 SHA256:x",
    login_s=0.1,
    rtt_s=0.01,
    shell_speaks=True,
    fresh_s=0.1,
    survey=SURVEY,
    privilege=Privilege("helper", "ops", {"problems": []}),
    build={"build": "0.5.23+a", "flags": ["--speculative-ddtree-budget"]},
    state={
        "stable": {"meta": {"build": "0.5.23+a"}},
        "launched": "i2",
        "history": [{"event": "adopted", "boot_id": "b2"}],
    },
    wanted_sha256="sha",
)


def lines(seen: Seen) -> dict[str, Symptom]:
    return {one.name: one for one in examine(seen)}


def surveyed(**changes: Any) -> Seen:
    return replace(SEEN, survey={**SURVEY, **changes})


def served(**changes: Any) -> Seen:
    return surveyed(service={**SERVICE, **changes})


def test_all_is_well_but_what_was_not_looked_at() -> None:
    found = lines(SEEN)
    assert [one.name for one in found.values() if one.ok is False] == []
    assert found["launcher"].ok


@pytest.mark.parametrize(
    ("cause", "line"), [("unknown_host_key", "host key"), ("auth_failed", "login"), ("timeout", "link")]
)
def test_a_host_that_cannot_be_reached_ends_the_list_where_it_broke(cause: str, line: str) -> None:
    found = lines(replace(SEEN, unreachable=Unreachable(cause, "one sentence.")))
    assert list(found)[-1] == line
    assert (found[line].ok, found[line].seen) == (False, "one sentence.")


@pytest.mark.parametrize(
    ("seen", "line", "words"),
    [
        (surveyed(systemd={"version": "239"}), "systemd", "version 239"),
        (surveyed(python="3.8.10"), "python", "3.8.10"),
        (surveyed(journal={"readable": False}), "journal", "group systemd-journal"),
        (surveyed(room=[{"path": "/dev/shm", "free_mib": 3, "free_inodes": 9000}]), "room /dev/shm", "3 MiB"),
        (surveyed(unit=None, units=[{"unit": "a.service"}, {"unit": "b.service"}]), "unit", "several services"),
        (surveyed(unit=None, units=[], loose=[{"pid": 7}]), "unit", "process 7"),
        (surveyed(unit=None, units=[]), "unit", "no running SGLang service"),
        (served(props={**PROPS, "LoadState": "not-found"}), "unit", "does not exist"),
        (served(unsupported="it runs docker"), "kind", "it runs docker"),
        (surveyed(site=None, service={**SERVICE, "same_command": False, "running": "what runs"}), "kind", "what runs"),
        (served(props={**PROPS, "KillMode": "process"}), "kill mode", "KillMode=process"),
        (served(api={"/metrics": 404}), "metrics", "off"),
        (served(api={"/metrics": 401}), "metrics", "asks for a key"),
        (served(api={"key": "the API key file /k cannot be read"}), "metrics", "/k"),
        (replace(SEEN, fresh="a code is asked for"), "fresh login", "a code"),
        (replace(SEEN, privilege=Privilege("none", "ops", None, "sudo asks.")), "root", "sudo asks"),
        (replace(SEEN, build={"build": "0.5.99+b", "flags": []}), "engine build", "0.5.99+b"),
        (surveyed(boot_id="b3"), "since boot", "restarted since"),
        (served(on_disk="/usr/local/bin/run-kimi"), "kind", "its next start is /usr/local/bin/run-kimi"),
        (replace(SEEN, state={**(SEEN.state or {}), "launched": "i1"}), "launcher", "another start"),
        (surveyed(site=None, drop_ins=[UNIT]), "adoption", "cut off"),
        (replace(SEEN, inspected={"outside": {"text": "/x was edited"}}), "unit files", "/x was edited"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_cost_and_a_mend(seen: Seen, line: str, words: str) -> None:
    found = lines(seen)[line]
    assert found.ok is False
    assert words in found.seen
    assert found.cost
    assert found.mend


def test_unit_files_are_spoken_of_where_the_helper_compares_them() -> None:
    assert "unit files" not in lines(replace(SEEN, inspected={"pid": 1}))
    assert lines(replace(SEEN, inspected={"outside": None}))["unit files"].ok


def test_what_is_only_to_know_fails_nothing() -> None:
    changed = served(props={**PROPS, "NeedDaemonReload": "yes", "Restart": "no"})
    found = lines(replace(changed, state={**(SEEN.state or {}), "launched": None}))
    assert {name for name, one in found.items() if one.ok is None} >= {"changed files", "restart", "launcher"}
    assert found["launcher"].seen.startswith("unproven until the next restart:")
    assert not [one for one in found.values() if one.ok is False]


def test_nothing_is_said_of_an_api_that_was_not_asked() -> None:
    without = {name: value for name, value in SERVICE.items() if name != "api"}
    found = lines(surveyed(service={**without, "unsupported": "it runs docker"}, site=None))
    assert found["kind"].ok is False
    assert "metrics" not in found
    assert not [one for one in found.values() if "None" in f"{one.seen} {one.cost} {one.mend}"]


@pytest.mark.parametrize("outcome", ["failed", "inconclusive"])
def test_a_gate_that_did_not_pass_proves_nothing_since_boot(outcome: str) -> None:
    history = [{"event": "adopted", "boot_id": "b1"}, {"event": "judged", "outcome": outcome, "boot_id": "b2"}]
    assert lines(replace(SEEN, state={**(SEEN.state or {}), "history": history}))["since boot"].ok is False


def test_a_drop_in_that_is_read_later_is_told() -> None:
    paths = "/a/10-x.conf /a/zz-ddtune.conf /a/zzz-site.conf"
    found = lines(served(props={**PROPS, "DropInPaths": paths}))["drop-ins"]
    assert found.cost.startswith("zzz-site.conf is read after")


ANSWER: dict[str, Any] = {
    "op": "0001-b12",
    "history": [
        {"at": 10.0, "event": "armed", "to": {"profile": "b12"}, "owner": {"who": "ada"}},
        {"at": 30.0, "event": "rolled_back", "cause": "illegal_memory_access", "to": {"profile": "b8"},
         "evidence": [{"at": 29.5, "source": "unit", "rank": "TP3", "text": "CUDA error\x1b[31m"}]},
    ],
    "txn": {"op": "0001-b12", "wall_at": 10.0, "armed_at": 100.0, "times": {"swapped": 105.0}},
    "quarantine": None,
    "releases": {"from": {"argv": ["a"]}, "to": None},
    "envelope": [],
    "ended": None,
    "site": {"profile": "b8"},
    "host": {"kernel": "6.1", "boot_id": "b", "at": 40.0},
    "window": {"since": 5, "until": 150},
    "journals": {
        "unit": {"lines": ["1.0 [2] a\x1b]52;c;x\x07"], "left_out": "3 lines in the middle, over the size limit"},
        "kernel": {"lines": [], "left_out": None},
        "guard": {"lines": ["x"], "left_out": None},
    },
    "redacted": {"keys": 2, "requests": 5, "too_short": 1},
}  # fmt: skip


def test_the_ticket_holds_what_there_is_and_names_what_there_is_not() -> None:
    found = pack("b300", UNIT, ANSWER, None)
    assert pack("b300", UNIT, ANSWER, None).contents == found.contents
    with tarfile.open(fileobj=io.BytesIO(found.data)) as archive:
        files = {one.name.split("/")[1]: (archive.extractfile(one) or io.BytesIO()).read().decode() for one in archive}
    assert "\x1b" not in "".join(files.values())
    timeline = files["timeline.txt"].splitlines()
    assert [line.split("Z  ")[1].strip().split(" ")[0] for line in timeline] == [
        "armed",
        "swapped",
        "unit",
        "rolled_back",
    ]
    assert json.loads(files["manifest.json"])["left_out"] == list(found.left_out)
    said = " ".join(found.left_out)
    for words in (
        "canaries",
        "2 places",
        "5 lines",
        "1 key too short",
        "of the service: 3 lines",
        "the kernel has no line",
        "readings",
    ):
        assert words in said, words
    assert "release-tried.json" not in files
