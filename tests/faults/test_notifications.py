"""Every end and every incident goes once to a real webhook and a real mailbox, and nothing secret goes with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import wait_until
from tests.faults.site import ENDS, STABLE, UNIT, Site
from tests.faults.test_residue import CGROUP, squat
from tests.faults.watching import watching
from tests.unit.receivers import PASSWORD, TOKEN, Mailbox, Webhook, listening

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
FAULT = (
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered; Args(api_key='sk-planted-4711')"
    " Authorization: Bearer sk-planted-4712 \x1b]52;c;eA==\x07\n"
    "RuntimeError: after Receive: obj=GenerateReqInput(text='what a user asked')\n"
)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    one = Webhook()
    with listening(one):
        yield one


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    one = Mailbox()
    with listening(one):
        yield one


def _told_to(site: Site, *addresses: str) -> None:
    path = site.operator.config.parent / "notify"
    path.write_text("\n".join(addresses) + "\n")
    path.chmod(0o600)


def _serves_again(site: Site) -> None:
    site.guest.console(["systemctl", "reset-failed", UNIT], check=False)
    site.guest.console(["systemctl", "start", UNIT])
    site.wait_ready()


def _commit_and_crash(site: Site) -> None:
    """A release that is committed, and in its probation ends by itself."""
    op = site.trial(probation_s=600)
    site.host.ok("soak", op=op)
    site.host.ok("confirm", op=op, invocation=site.guest.show("InvocationID"))
    site.settled(op)
    site.guest.console(["systemctl", "kill", "-s", "KILL", UNIT])
    wait_until("previous serves", lambda: site.runs(STABLE), 60)


def _abort(site: Site) -> None:
    op = site.trial()
    site.host.ok("abort", op=op)
    site.back(op, "aborted")


def _fault_in_the_log(site: Site) -> None:
    op = site.trial()
    # The journal asks of whom a line is while its writer lives.
    words = f"echo $$ >{CGROUP}; (cat; sleep 3) | systemd-cat -t engine"
    site.guest.console(["sh", "-c", words], FAULT.encode(), check=False)
    txn = site.settled(op, 90)
    assert (txn["state"], txn["cause"]) == ("ROLLED_BACK", "illegal_memory_access"), txn["evidence"]
    wait_until("stable serves", lambda: site.runs(STABLE), 60)


def _port_of_somebody_else(site: Site) -> None:
    op = site.trial()
    pid = squat(site, within_unit=False)
    site.host.ok("fail", op=op, cause="slow")
    assert site.settled(op, 90)["state"] == "HOST_ACTION_REQUIRED"
    site.guest.console(["kill", str(pid)])
    _serves_again(site)


def _no_way_back(site: Site) -> None:
    op = site.trial()
    broken = f"/etc/systemd/system/{UNIT}.d/50-broken.conf"
    site.guest.put(broken, '[Service]\nEnvironment="DDTUNE_SIM_SCENARIO=@budget>=1:bad_exit"\n')
    site.guest.console(["systemctl", "daemon-reload"])
    site.host.ok("fail", op=op, cause="garbage_output")
    assert site.settled(op, 120)["state"] == "ROLLBACK_FAILED"
    site.guest.console(["rm", broken])
    site.guest.console(["systemctl", "daemon-reload"])
    _serves_again(site)


WAYS = (_commit_and_crash, _abort, _fault_in_the_log, _port_of_somebody_else, _no_way_back)


def test_each_end_and_each_incident_once(own_site: Site, webhook: Webhook, mailbox: Mailbox) -> None:
    site = own_site
    _told_to(site, webhook.address, mailbox.address)

    def told() -> Counter[str]:
        return Counter(title.partition(": ")[2].partition(" (")[0] for title in webhook.titles())

    with watching(site, "--only-tell") as watch:
        for way in WAYS:
            way(site)
        wanted = [event.replace("_", " ") for event in ENDS]
        wait_until("each end is told", lambda: set(wanted) <= set(told()), 60)
        wait_until("the incident is told", lambda: told()["illegal_memory_access"], 60)
    # The one behind it has nothing to add.
    with watching(site, "--only-tell") as watch:
        watch.until("watching")
        before = webhook.titles()
        site.status()
    assert webhook.titles() == before
    assert {event: told()[event] for event in wanted} == dict.fromkeys(wanted, 1) | {"rolled back": 1}, told()
    assert told()["illegal_memory_access"] == 1
    wait_until("the mails are there", lambda: sorted(mailbox.titles()) == sorted(webhook.titles()), 30)
    everything = str(webhook.got) + "".join(map(str, mailbox.got)) + watch.said + _log(site)
    for secret in ("sk-planted", "what a user asked", TOKEN, PASSWORD, "\x1b", "\\x1b"):
        assert secret not in everything, secret


def test_a_dry_run_says_what_it_would_tell_and_tells_nobody(own_site: Site, webhook: Webhook) -> None:
    site = own_site
    _told_to(site, webhook.address)
    with watching(site, "--dry-run") as watch:
        _abort(site)
        watch.until("b300: aborted")
        watch.until("dry run: would tell json")
        assert webhook.got == []
        assert TOKEN not in watch.said
    with watching(site) as watch:
        _abort(site)
        wait_until("the next one is told", lambda: webhook.got, 60)
    assert [title.partition(" (")[0] for title in webhook.titles()] == ["b300: aborted"]


def _log(site: Site) -> str:
    return Path(site.operator.folder / "watch.log").read_text()
