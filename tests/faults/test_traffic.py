"""Held traffic, tried from a second network namespace: no user reaches a trial that nobody has judged."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddtune.onhost import traffic
from ddtune.onhost.paths import Install
from tests.e2e.guest import free_port, wait_until
from tests.e2e.onhost import RUN
from tests.e2e.operator import HOST
from tests.faults.network import HOST_IP, HOST_IP6, Network, far_site, within
from tests.faults.site import STABLE, UNIT, Site, kill, reached

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed (tests/setup/packages)"),
]
TABLE = traffic.table(UNIT)


ADDRESSES = (HOST_IP, HOST_IP6, f"::ffff:{HOST_IP}")
# What binds a socket for several workers takes both families by one.
BOTH_FAMILIES = ["--host", "::", "--tokenizer-worker-num", "2"]


class User:
    """Connects from the far end every few milliseconds, until closed; each try's moment and whether it was answered."""

    def __init__(self, network: Network, address: str, port: int) -> None:
        self.address = address
        self.tries: list[tuple[float, bool]] = []
        self._port = port
        self._pid = network.operator
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with within(self._pid):
            while not self._over.is_set():
                began = time.clock_gettime(time.CLOCK_BOOTTIME)
                self.tries.append((began, self._answered()))
                self._over.wait(0.03)

    def _answered(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.address, self._port), 1) as one:
            one.settimeout(2)
            one.sendall(b"GET /ready HTTP/1.1\r\nHost: far\r\nConnection: close\r\n\r\n")
            return one.recv(64).startswith(b"HTTP/1.1 200")
        return False

    def reaches(self) -> bool:
        """Whether a try from now on was answered."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        wait_until("another try", lambda: self.tries and self.tries[-1][0] > now, 15, 0.01)
        return self.tries[-1][1]

    def close(self) -> None:
        self._over.set()
        self._thread.join()


class Users:
    """One for each way to the host: IPv4, IPv6, and IPv4 out of a socket of IPv6's."""

    def __init__(self, network: Network, port: int) -> None:
        self.all = [User(network, address, port) for address in ADDRESSES]

    def answered(self, start: float, end: float) -> list[bool]:
        """The tries of all of them between two moments of CLOCK_BOOTTIME."""
        return [good for user in self.all for at, good in user.tries if start < at < end]

    def served(self) -> list[str]:
        """The addresses at which one is answered now."""
        return [user.address for user in self.all if user.reaches()]

    def close(self) -> None:
        for user in self.all:
            user.close()


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Network, Users]]:
    folder = tmp_path_factory.mktemp("far")
    with far_site(folder, fields={"traffic": "held"}, flags=BOTH_FAMILIES) as (site, network):
        users = Users(network, site.guest.api_port)
        try:
            yield site, network, users
        finally:
            users.close()


def _table(network: Network) -> bool:
    with within(network.host):
        listed = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    return TABLE in listed


def _call_and_die(site: Site, op: str) -> None:
    with contextlib.suppress(AssertionError, ValueError):
        site.host.call("stop", op=op)


def _open(site: Site, network: Network, users: Users) -> None:
    """Nothing is held, and users are served by stable."""
    wait_until("nothing is held", lambda: not _table(network), 15)
    assert not site.guest.file(f"{RUN}/held.json").exists()
    wait_until("users are served", lambda: users.served() == list(ADDRESSES), 30)


def test_no_user_reaches_the_trial_before_its_quick_gate(far: tuple[Site, Network, Users]) -> None:
    site, network, users = far
    assert users.served() == list(ADDRESSES)
    plan = site.operator.run("switch", HOST, "t7", "--dry-run", "--json").json
    assert plan["traffic"] == "held"
    assert not any(finding["blocks"] for finding in plan["findings"])
    assert not _table(network), "a dry run holds nothing"
    process = site.start_switch("t7")
    txn = site.until(process, "the soak", reached("SOAK"))
    times = txn["times"]
    out, err = process.communicate(timeout=120)
    answer = json.loads(out)
    assert (process.returncode, answer["outcome"]) == (0, "committed"), (answer, err)
    judged = users.answered(times["ready"], times["lifted"])
    assert len(judged) > 5, "the trial served on loopback, and users tried"
    assert not any(users.answered(times["stopped"], times["lifted"]))
    assert any(users.answered(times["lifted"] + 0.5, times["lifted"] + 10))
    _open(site, network, users)
    site.operator.run("rollback", HOST, "--yes", "--json", timeout=150)
    site.remember()
    _open(site, network, users)


def test_no_other_door_and_no_address_of_its_own_leads_to_a_held_trial(far: tuple[Site, Network, Users]) -> None:
    """An engine that listens on IPv4 alone, and on a second port: gRPC's, for which a plain server stands in."""
    site, network, users = far
    door, port = free_port(), site.guest.api_port
    with within(network.host):
        server = subprocess.Popen(
            [sys.executable, "-m", http.server.__name__, str(door), "--bind", "::"],
            cwd=site.guest.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        wait_until("the door is open", lambda: _connects(network.operator, HOST_IP6, door), 15)
        candidate = site.candidate(7, "--host", "0.0.0.0", "--grpc-port", str(door))
        op = site.host.trial(candidate, traffic="held")
        site.host.wait_ready(op)
        outside = {(address, at) for address in ADDRESSES for at in (port, door)}
        assert {one for one in outside if _connects(network.operator, *one)} == set()
        assert users.served() == []
        # What users' proxy on this host may ask is held as well, loopback is not.
        own = {(address, at) for address in (HOST_IP, HOST_IP6) for at in (port, door)}
        assert {one for one in own if _connects(network.host, *one)} == set()
        inside = {("127.0.0.1", port), ("127.0.0.1", door), ("::1", door)}
        assert {one for one in inside if _connects(network.host, *one)} == inside
        site.host.ok("lift", op=op)
        assert users.served() == [HOST_IP, f"::ffff:{HOST_IP}"]
        assert all(_connects(network.operator, address, door) for address in ADDRESSES)
        site.host.ok("abort", op=op)
        site.back(op, "aborted")
    finally:
        server.kill()
        server.wait()
    _open(site, network, users)


@pytest.mark.slow
def test_an_engine_on_ipv6_alone_is_judged_and_held(far: tuple[Site, Network, Users]) -> None:
    """One worker takes IPv6 alone: ddtune asks it on ::1, and nobody else reaches it before its quick gate."""
    site, network, users = far
    folder = site.operator.config.parent / "profiles"
    text = (folder / "t7.toml").read_text()
    (folder / "six.toml").write_text(f'args = ["--host", "::", "--tokenizer-worker-num", "1"]\n{text}')
    code, answer = site.switch("six")
    assert (code, answer["outcome"]) == (0, "committed"), answer
    times = site.txn()["times"]
    assert len(users.answered(times["ready"], times["lifted"])) > 5
    assert not any(users.answered(times["stopped"], times["lifted"]))
    assert users.served() == [HOST_IP6]
    assert not _connects(network.host, "127.0.0.1", site.guest.api_port)
    assert site.status()["service"]["health"] in ("serving", "idle")
    site.operator.run("rollback", HOST, "--yes", "--json", timeout=150)
    site.remember()
    _open(site, network, users)


@pytest.mark.slow
def test_a_bad_trial_answers_no_user(far: tuple[Site, Network, Users]) -> None:
    site, network, users = far
    code, answer = site.switch("t3", "--force")
    assert (code, answer["outcome"]) == (3, "rolled_back"), answer
    assert answer["served_ungated"] == 0
    times = site.txn()["times"]
    assert not any(users.answered(times["stopped"], times["rollback_stopped"]))
    _open(site, network, users)


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["controller", "guard", "both", "helper"])
def test_whoever_dies_users_come_back(far: tuple[Site, Network, Users], dies: str) -> None:
    site, network, users = far
    op = site.host.arm(site.candidate(7), traffic="held", lease_s=4)
    site.host.ok("swap", op=op)
    guard = f"ddtune-guard-{op}.service"
    if dies == "helper":
        # In the middle of its stop: what it holds is there, and the unit may be half down.
        threading.Thread(target=_call_and_die, args=(site, op), daemon=True).start()
        wait_until("it is held", lambda: _table(network), 10, 0.005)
        for pid, argv in site.programs().items():
            if argv[:1] == ["helper"]:
                os.kill(pid, signal.SIGKILL)
    else:
        site.host.ok("stop", op=op)
        site.host.ok("start", op=op)
        site.host.wait_ready(op)
        assert users.served() == []
    if dies in ("guard", "both"):
        site.guest.ssh(["systemctl", "kill", "-s", "KILL", guard])
        wait_until("the guard is back", lambda: site.guest.show("MainPID", guard) != "0", 10)
        assert _table(network)
    # Nobody renews the lease: the controller is dead in each case.
    site.settled(op)
    site.back(op)
    _open(site, network, users)


@pytest.mark.slow
def test_a_killed_controller_in_the_gate(far: tuple[Site, Network, Users]) -> None:
    site, network, users = far
    process = site.start_switch("t7", "--force")
    op = site.until(process, "the gate", reached("TRIAL", ready=True))["op"]
    kill(process)
    site.back(op, "lease_lost")
    _open(site, network, users)


def test_a_host_without_nftables_refuses_and_says_so(far: tuple[Site, Network, Users]) -> None:
    site, network, users = far
    site.guest.ssh(["mv", "/usr/sbin/nft", "/usr/sbin/nft.away"])
    try:
        plan = site.operator.run("switch", HOST, "t7", "--dry-run", "--json")
        assert plan.code == 7
        assert any("install nftables" in finding["text"] for finding in plan.json["findings"])
        code, answer = site.switch("t7")
        assert (code, answer["outcome"], answer["cause"]) == (7, "refused", "unsupported_unit")
        refused = site.host.call("arm", op="0000-x", kind="switch", owner={"who": "ada"}, candidate=site.candidate(),
                                 lease_s=30, confirm_deadline_s=60, traffic="held")  # fmt: skip
        assert (refused["ok"], refused["cause"]) == (False, "unsupported_unit")
    finally:
        site.guest.ssh(["mv", "/usr/sbin/nft.away", "/usr/sbin/nft"])
    _open(site, network, users)


@pytest.mark.slow
def test_a_flushed_ruleset_is_put_back_and_a_power_cut_lifts(far: tuple[Site, Network, Users]) -> None:
    site, network, users = far
    op = site.host.trial(site.candidate(7), traffic="held")
    site.host.wait_ready(op)
    with within(network.host):
        subprocess.run(["nft", "flush", "ruleset"], check=True)
    wait_until("it is held again", lambda: _table(network), 10)
    assert users.served() == []
    with within(network.host):
        site.guest.power_cut()
        # The guest has no kernel of its own, whose rules a power cut would take along.
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        known = site.guest.known_hosts.read_text()
        site.guest.boot()
        site.guest.known_hosts.write_text(known)
    site.wait_ready()
    assert site.budget() == STABLE
    _open(site, network, users)


def test_with_every_program_dead_the_kernel_lifts(tmp_path: Path) -> None:
    network = Network()
    port = free_port()
    install = Install()
    try:
        with within(network.host):
            server = subprocess.Popen(
                [sys.executable, "-m", http.server.__name__, str(port), "--bind", "0.0.0.0"],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                wait_until("it listens", lambda: _connects(network.host, "127.0.0.1", port), 15)
                assert _connects(network.operator, HOST_IP, port)
                traffic.check(install, UNIT, port)
                assert _connects(network.operator, HOST_IP, port)
                traffic._nft(install, "-f", "-", given=traffic._rules(UNIT, [port], 2))
                assert not _connects(network.operator, HOST_IP, port)
                assert _connects(network.host, "127.0.0.1", port)
                wait_until("its time is over", lambda: _connects(network.operator, HOST_IP, port), 10)
            finally:
                server.kill()
                server.wait()
    finally:
        network.close()


def _connects(pid: int, address: str, port: int) -> bool:
    with within(pid), contextlib.suppress(OSError), socket.create_connection((address, port), 1):
        return True
    return False
