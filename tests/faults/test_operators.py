"""Two operators, the same bad release twice, hands on the host, and values that want to be more than words."""

from __future__ import annotations

import concurrent.futures
import time
from typing import Any

import pytest

from tests.e2e.guest import wait_until
from tests.e2e.onhost import CANARY, STATE
from tests.e2e.operator import write_config
from tests.faults.rows import Row
from tests.faults.site import GOOD, HOST, LIMITS, STABLE, UNIT, Site
from tests.faults.terminal import dashboard

pytestmark = pytest.mark.timeout(300)


def test_35_two_operators(site: Site, row: Row) -> None:
    candidate = site.candidate()

    def arm(who: str, turn: int) -> Any:
        owner = {"who": who, "host": "laptop", "pid": 1, "version": "0"}
        return site.host.call(
            "arm", op=f"000{turn}-{who}", kind="switch", owner=owner, candidate=candidate, lease_s=30,
            confirm_deadline_s=60, canary=CANARY, api_port=site.guest.api_port,
        )  # fmt: skip

    for turn in range(2):
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            answers = list(both.map(arm, ("ada", "bob"), (turn, turn)))
        won = [answer for answer in answers if answer["ok"]]
        lost = [answer for answer in answers if not answer["ok"]]
        assert len(won) == len(lost) == 1, answers
        winner = "ada" if answers[0]["ok"] else "bob"
        assert lost[0]["cause"] == "busy"
        assert winner in str(lost[0]["message"])
        assert lost[0]["detail"]["until"] > time.time()
        site.host.ok("abort", op=f"000{turn}-{winner}")
        site.settled(f"000{turn}-{winner}")
    row.note("2 of 2 races: one armed, the other told owner and until")

    old = site.trial()
    judged = site.guest.show("InvocationID")
    site.host.ok("abort", op=old)
    site.back(old, "aborted")
    new = site.trial()
    late = site.host.call("confirm", op=old, invocation=judged)
    assert not late["ok"]
    assert not site.host.call("renew", op=old)["ok"]
    assert site.txn()["op"] == new
    row.note("the old one's confirm and renew are refused")
    site.host.ok("abort", op=new)
    site.back(new, "aborted")


@pytest.mark.slow
def test_36_bad_release_again(site: Site, row: Row) -> None:
    code, first = site.switch("t3", "--force")
    assert (code, first["outcome"]) == (3, "rolled_back"), first
    code, second = site.switch("t3")
    assert (code, second["cause"]) == (7, "quarantined"), second
    code, third = site.switch("t3", "--force")
    assert code == 3, third
    armed = [line for line in site.lines() if line["op"] == third["op"] and line["event"] == "armed"]
    assert armed[0]["force"] is True
    row.note("refused as quarantined (7); forced run stands in the history with force and owner")
    assert armed[0]["owner"]["who"]
    assert site.runs(STABLE)


@pytest.mark.slow
def test_37_restarted_by_hand(site: Site, row: Row) -> None:
    op = site.trial()
    # The way back may cancel the rest of it.
    site.guest.console(["systemctl", "restart", UNIT], check=False)
    began = time.monotonic()
    txn = site.back(op, "drift")
    row.took(time.monotonic() - began)
    assert txn["candidate"] != site.original
    assert any("outside of ddtune" in str(line["text"]) for line in site.lines())
    row.note("restart by hand: drift")


@pytest.mark.slow
def test_37_edited_by_hand(own_site: Site, row: Row) -> None:
    site = own_site
    edit = f"/etc/systemd/system/{UNIT}.d/zzz-mine.conf"
    op = site.trial()
    argv = " ".join(site.guest.main_argv()).replace("budget 7", "budget 1")
    text = f"[Service]\nExecStart=\nExecStart={argv}\n"
    site.guest.put(edit, text)
    site.guest.console(["systemctl", "daemon-reload"])
    site.guest.console(["systemctl", "restart", UNIT], check=False)
    txn = site.settled(op, 90)
    row.note(f"ExecStart edited: {txn['state']} {txn['cause']}")
    assert txn["state"] in ("ROLLED_BACK", "ROLLBACK_FAILED")
    assert site.guest.file(edit).read_text() == text, "somebody's edit is theirs"
    answer = site.operator.run("switch", HOST, "t7", "--yes", "--json").json
    assert answer["outcome"] == "refused"
    assert "drift" in (answer.get("cause"), answer.get("error", {}).get("cause"))
    row.note("next switch refused: drift")
    site.guest.console(["rm", edit])
    site.guest.console(["systemctl", "daemon-reload"])
    site.guest.console(["systemctl", "restart", UNIT])
    site.wait_ready()
    assert site.runs(STABLE)


HOSTILE = (
    "; rm -rf /",
    "$(id)",
    "`id`",
    "a\nb",
    "%h %n %%",
    "${HOME} $HOME",
    "'\"\\",
    "--config=/etc/passwd",
    "ünï\u202e",
)


def test_39_values_stay_words(site: Site, row: Row) -> None:
    """All at once, in the argv and in the environment of one start."""
    more = [f"--served-model-name={value}" for value in HOSTILE]
    env = {f"MINE_{number}": value for number, value in enumerate(HOSTILE)}
    op = site.host.trial(site.host.put(7, *more, **env))
    site.host.wait_ready(op)
    assert site.guest.main_argv()[-len(more) :] == more
    found = site.guest.main_env()
    assert {name: found[name] for name in env} == env
    row.note(f"{len(HOSTILE)} values literal in argv and environment")
    site.host.ok("abort", op=op)
    site.back(op, "aborted")
    base = site.host.ok("base")
    for argv in (["--seed", "a\0b"], ["--seed", 7]):
        release = {"argv": [*base["argv"], *argv], "cwd": base["cwd"], "env_set": {}, "env_unset": [], "schema": 1}
        assert not site.host.call("put_release", release=release, meta={})["ok"]
    for name in ("LD_PRELOAD", "PYTHONSTARTUP"):
        release = {"argv": base["argv"], "cwd": base["cwd"], "env_set": {name: "/tmp/x"}, "env_unset": [], "schema": 1}
        assert not site.host.call("put_release", release=release, meta={})["ok"]
    row.note("NUL, LD_PRELOAD, PYTHONSTARTUP refused")


def test_38_host_keys(site: Site, row: Row) -> None:
    good = site.guest.known_hosts.read_text()
    pattern, kind, key = good.split()
    other = (site.guest.folder / "id_ed25519.pub").read_text().split()[1]
    cases = {
        "changed": f"{pattern} {kind} {other}\n",
        "unknown": "",
        "revoked": f"@revoked {pattern} {kind} {key}\n{good}",
    }
    try:
        for name, text in cases.items():
            site.guest.known_hosts.write_text(text)
            answer = site.operator.run("status", HOST, "--json")
            assert answer.code == 8, (name, answer)
            assert "Traceback" not in answer.err
            row.note(f"{name}: exit 8")
    finally:
        site.guest.known_hosts.write_text(good)
    assert site.operator.run("status", HOST).code == 0


LOOKS = (
    ("status",),
    ("history",),
    ("doctor",),
    ("profiles", "list", "--host"),
    ("profiles", "check", "--host"),
    ("switch", GOOD, "--dry-run"),
    ("gate", "--quick"),
)
CHANGES = (("switch", GOOD, "--yes"), ("restart", "--yes"), ("rollback", "--yes"), ("abort",), ("adopt",), ("unadopt",))


@pytest.mark.slow
def test_42_read_only_writes_nothing(site: Site, row: Row, request: pytest.FixtureRequest) -> None:
    """Every file of the host that is written, made or removed while a viewer looks, from the very first look on."""
    site.guest.console(["sh", "-c", f"rm -f {STATE}/build.json {STATE}/flag-checks.json"])
    write_config(site.guest, site.operator.folder, LIMITS, write=False)
    request.addfinalizer(lambda: write_config(site.guest, site.operator.folder, LIMITS))
    before = site.invocation()
    stamp = site.stamp()
    for look, *args in LOOKS:
        answer = site.operator.run(look, *((*args, HOST) if args[-1:] == ["--host"] else (HOST, *args)))
        assert answer.code in (0, 9), (look, answer)
        assert "Traceback" not in answer.err, answer
    for change, *args in CHANGES:
        answer = site.operator.run(change, HOST, *args, "--json")
        assert (answer.code, answer.json["error"]["cause"]) == (7, "read_only"), (change, answer)
    with dashboard(site, "--write") as terminal:
        terminal.until(b"b8-nvls")
        terminal.until(b"READ-ONLY")
        terminal.press("P")
        terminal.until(b"t7")
        terminal.press("qq")
        terminal.read(1)
    wait_until("nothing of it is left on the host", lambda: not site.collectors() and not site.programs(), 45)
    changed = site.changed(stamp)
    assert changed == [], changed
    assert site.invocation() == before
    row.note(
        f"0 files changed by {len(LOOKS)} commands that look and by the dashboard; {len(CHANGES)} others refused (7)"
    )


ESCAPES = (
    "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://evil/\x1b\\click\x1b]8;;\x1b\\", "\x1b[2J\x1b[31mred", "\u202egnirts",
    "[/bold] [bold red]x[/]", "\x9b31m", "a\rb\x08c",
)  # fmt: skip


@pytest.mark.slow
def test_40_log_shown_inert(site: Site, row: Row) -> None:
    """Lines of the unit's own, written from within its cgroup."""
    lines = [f"FAULTS {text}".encode() for text in ESCAPES]
    lines += [b"FAULTS \xff\xfe\xc3(", b"FAULTS " + b"x" * 1_000_000, b"FAULTS-LAST"]
    into = f"/sys/fs/cgroup/system.slice/{UNIT}/cgroup.procs"
    site.guest.console(["sh", "-c", f"echo $$ >{into}; exec systemd-cat -t engine"], b"\n".join(lines) + b"\n")
    told = site.operator.run("status", HOST).out + site.operator.run("history", HOST).out
    assert "\x1b" not in told
    with dashboard(site) as terminal:
        terminal.until(b"b8-nvls")
        site.guest.console(["sh", "-c", f"echo $$ >{into}; exec systemd-cat -t engine"], b"\n".join(lines) + b"\n")
        terminal.press("l")
        terminal.until(b"FAULTS-LAST")
        written = terminal.output
        for bad in (b"\x1b]52", b"\x1b]8;;http://evil", "\u202e".encode(), b"\xc2\x9b31m"):
            assert bad not in written, bad
        assert terminal.process.poll() is None
    row.note(f"{len(lines)} lines shown inert, dashboard alive")
