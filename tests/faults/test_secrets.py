"""A planted key, looked for in all that a whole run writes, starts, shows and sends, on both sides."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import booted, wait_until
from tests.e2e.onhost import STATE
from tests.e2e.operator import HOST, Operator
from tests.e2e.tmux import Tmux, of, terminal
from tests.faults.site import LIMITS, UNIT, Site, adopt
from tests.faults.test_residue import CGROUP
from tests.faults.watching import watching
from tests.unit.receivers import Webhook, listening

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
KEYS = ("sk-planted-5d0c2f9e77", "adm-planted-81b6aa04e3")
# What is cut or wrapped on a screen still has one of these.
PARTS = ("5d0c2f9e77", "81b6aa04e3", "sk-planted", "adm-planted")
KEY_FILE = "/etc/sglang/api-key"
# Where a key is the service's own doing, or kept so that the service can start with it.
OWN = (f"/etc/systemd/system/{UNIT}", KEY_FILE, f"/run/ddtune/{UNIT}/chosen", f"{STATE}/base.json")
FAULT = (
    f"server_args={ {'api_key': KEYS[0], 'admin_api_key': KEYS[1]} }\n"
    f"torch.AcceleratorError: CUDA error: an illegal memory access was encountered; Args(api_key='{KEYS[0]}')"
    f" Authorization: Bearer {KEYS[1]}, and {KEYS[0]} once more\n"
)


class Sampler:
    """Looks at the argument list and environment of every process of this machine, guests included, again and again."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                self._look(pid)
            self.looks += 1
            self._over.wait(0.02)

    def _look(self, pid: str) -> None:
        with contextlib.suppress(OSError):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes()
            env = Path(f"/proc/{pid}/environ").read_bytes()
            for key in KEYS:
                # The engine itself was started with it, before ddtune came.
                if key.encode() in argv and b"sglang.launch_server" not in argv:
                    self.found.add(f"argv: {argv[:200]!r}")
                if key.encode() in env:
                    self.found.add(f"environment of {argv[:200]!r}")

    def finds(self, pid: int, sign: str) -> bool:
        """Whether a look at ``pid`` finds a key in the place that ``sign`` names."""
        self._look(str(pid))
        return any(one.startswith(sign) for one in self.found)

    def close(self) -> None:
        self._over.set()
        self._thread.join()


@contextlib.contextmanager
def _sampling() -> Iterator[Sampler]:
    sampler = Sampler()
    try:
        yield sampler
    finally:
        sampler.close()


class Screens:
    """Terminals in which ddtune runs, and whether a key was ever to be seen on one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: list[str] = []

    @contextlib.contextmanager
    def of(self, operator: Operator, *words: str) -> Iterator[Tmux]:
        """``ddtune WORDS`` in a wide terminal."""
        with self.showing(of(operator, *words)) as tmux:
            yield tmux

    @contextlib.contextmanager
    def showing(self, command: list[str]) -> Iterator[Tmux]:
        with terminal(self._folder / str(len(os.listdir(self._folder))), command, 240, 70) as tmux:
            yield tmux
            self.look(tmux)

    def look(self, tmux: Tmux) -> str:
        """Keeps and gives what is shown now, and what was before."""
        shown = tmux.shown("-S", "-")
        self.seen.append(shown)
        return shown

    def walk(self, tmux: Tmux, *keys: str) -> None:
        """Looks after each key, once the screen has come to rest."""
        for key in keys:
            tmux.press(key)
            last = [""]

            def rests(last: list[str] = last) -> bool:
                before, last[0] = last[0], re.sub(r"\d", "0", tmux.shown())
                return before == last[0]

            with contextlib.suppress(AssertionError):
                wait_until("the screen rests", rests, 5, 0.3)
            self.look(tmux)


def _told(texts: list[str]) -> list[str]:
    """What of the keys is in ``texts``, also where a frame or a line end stands in the middle of one."""
    everything = "\n".join(texts)
    joined = re.sub(r"[\s│┃|▏▕]+", "", everything)
    return [part for part in PARTS if part in everything or part in joined]


def _holding(root: Path, prefix: str = "") -> list[str]:
    """The files below ``root`` with a planted key in them, compressed ones unpacked."""
    words = [word for key in KEYS for word in ("-e", key)]
    done = subprocess.run(
        ["find", root, "-xdev", "-type", "f", "-exec", "grep", "-lF", *words, "{}", "+"],
        capture_output=True,
        text=True,
        check=False,
    )
    packed = subprocess.run(
        ["find", root, "-xdev", "-name", "*.gz", "-exec", "zgrep", "-alF", *words, "{}", "+"],
        capture_output=True,
        text=True,
        check=False,
    )
    return sorted({prefix + line.removeprefix(str(root)) for line in (done.stdout + packed.stdout).splitlines()})


def _ours(path: str) -> bool:
    journal = path.startswith(("/var/log/journal/", "/run/log/journal/"))
    release = path.startswith(f"{STATE}/releases/") and path.endswith("/release.json")
    return not (journal or release or path in OWN or path.startswith("/run/systemd/"))


def _on_host(site: Site) -> list[str]:
    """The files that the guest has written with a planted key in them."""
    guest = site.guest
    return _holding(Path(f"/proc/{guest._keeper.pid}/root{guest._base}/up")) + _holding(guest.file("/run"), "/run")


def _check_host(site: Site) -> None:
    on_host = _on_host(site)
    assert [path for path in on_host if _ours(path)] == []
    assert any(path.endswith("/release.json") for path in on_host), "the search finds what is there"
    assert any(path.startswith(("/var/log/journal/", "/run/log/journal/")) for path in on_host), "the engine leaks"
    for path in on_host:
        if path.startswith((STATE, "/run/ddtune")):
            assert not site.guest.file(path).stat().st_mode & 0o007, path


def test_a_planted_key_stays_where_it_was(tmp_path: Path) -> None:
    operators, terminals = tmp_path / "operators", tmp_path / "terminals"
    terminals.mkdir()
    webhook, screens = Webhook(), Screens(terminals)
    with booted(tmp_path) as guest, listening(webhook):
        guest.put(KEY_FILE, f"{KEYS[0]}\n", "600")
        operator = Operator(guest, operators / "file", LIMITS, api_key_file=KEY_FILE)
        plain = Operator(guest, operators / "argv", LIMITS)
        for one in (operator, plain):
            notify = one.config.parent / "notify"
            notify.write_text(f"{webhook.address}\n")
            notify.chmod(0o600)
        with _sampling() as sampler:
            site = adopt(guest, operator, ["--api-key", KEYS[0], "--admin-api-key", KEYS[1]])
            shutil.copytree(operator.config.parent / "profiles", plain.config.parent / "profiles")
            said = _run(site, plain, screens)
            wait_until("both ends and the incident are told", lambda: len(webhook.got) >= 3, 60)
        # From here on the search itself has the keys among its arguments.
        _check_host(site)
        assert _holding(operators) == []
        assert _told(said) == []
        assert _told(screens.seen) == []
        assert _told([str(webhook.got)]) == []
        assert sampler.looks > 20
        assert sampler.found == set()

        _leaks_are_found(site, operators, sampler, screens, webhook)

        # The same service with its key on its command line alone.
        with _sampling() as sampler:
            assert plain.run("unadopt", HOST, "--json").code == 0
            guest.ssh(["systemctl", "restart", UNIT])
            site.wait_ready()
            adopted = plain.run("adopt", HOST, "--json", timeout=120)
            assert adopted.code == 0, adopted
            said = [adopted.out, adopted.err]
            said.append(_ran(plain, "switch", HOST, "t7", "--yes", "--force"))
            said += [_ran(plain, *words) for words in (("gate", HOST, "--quick"), ("status", HOST), ("doctor", HOST))]
        (operators / "leak.txt").unlink()
        (operators / "leak.gz").unlink()
        guest.file(f"{STATE}/leak.json").unlink(missing_ok=True)
        _check_host(site)
        assert (_holding(operators), _told(said), sampler.found) == ([], [], set())


def _run(site: Site, plain: Operator, screens: Screens) -> list[str]:
    """A commit, a rollback, an incident, and everything that can be asked or looked at; all that was said."""
    said: list[str] = []
    recording = site.operator.start("record", HOST, "seen.gz", "--json")
    by_argv = plain.start("record", HOST, "seen.gz", "--json")
    with (
        watching(site, "--only-tell") as watch,
        screens.of(site.operator, "connect", HOST) as connected,
        screens.of(plain, "connect", HOST, "--write") as unlocked,
    ):
        for tmux in (connected, unlocked):
            tmux.until("SERVING", 60)
        said.append(_ran(site.operator, "switch", HOST, "t7", "--yes"))
        said.append(_ran(site.operator, "switch", HOST, "t3", "--yes", "--force"))
        # What the engine prints as it dies, with its keys among the words.
        op = site.trial()
        screens.walk(connected, "l")
        words = f"echo $$ >{CGROUP}; (cat; sleep 3) | systemd-cat -t engine"
        site.guest.ssh(["sh", "-c", words], FAULT.encode(), check=False)
        assert site.settled(op, 90)["cause"] == "illegal_memory_access"
        site.wait_ready()
        wait_until("the line is shown", lambda: "illegal memory access" in screens.look(connected), 30)
        screens.walk(connected, "Escape", "H", "Enter", "q", "P", "Enter", "q", "q")
        screens.walk(unlocked, "l", "Escape", "P", "Enter", "Escape", "q", "H", "q")
        said.append(watch.said)
    for process in (recording, by_argv):
        process.terminate()
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, (out, err)
        said += [out, err]
    for operator in (site.operator, plain):
        with screens.of(operator, "replay", "seen.gz", "--speed", "50") as replayed:
            replayed.until("SERVING", 60)
            screens.walk(replayed, "l", "Escape", "n", "n", "l")
    for words in (
        ("status", HOST),
        ("doctor", HOST),
        ("history", HOST),
        ("gate", HOST, "--quick"),
        ("profiles", "show", "t7", "--host", HOST),
        ("profiles", "check", "t7", "--host", HOST),
        ("watch", HOST, "--once"),
        ("evidence", HOST, op),
    ):
        said.append(_ran(site.operator, *words))
    said += [_ran(plain, *words) for words in (("status", HOST), ("doctor", HOST), ("profiles", "show", "t7"))]
    return said


def _ran(operator: Operator, *words: str) -> str:
    answer = operator.run(*words, "--json", timeout=200)
    assert answer.code in (0, 3, 7, 9, 10), (words, answer)
    return answer.out + answer.err


def _leaks_are_found(site: Site, operators: Path, sampler: Sampler, screens: Screens, webhook: Webhook) -> None:
    """What leaks on purpose is found, in each of the places that were searched."""
    (operators / "leak.txt").write_text(KEYS[0])
    with gzip.open(operators / "leak.gz", "wt") as file:
        file.write(KEYS[1])
    assert _holding(operators) == ["/leak.gz", "/leak.txt"]
    site.guest.put(f"{STATE}/leak.json", KEYS[1])
    assert [path for path in _on_host(site) if _ours(path)] == [f"{STATE}/leak.json"]
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    for argv, env, sign in (([*sleeps, KEYS[0]], {}, "argv: "), (sleeps, {"KEY": KEYS[1]}, "environment of ")):
        with subprocess.Popen(argv, env=env) as leaking:
            try:
                wait_until(sign, lambda pid=leaking.pid, sign=sign: sampler.finds(pid, sign), 15, 0.02)
            finally:
                leaking.kill()
        sampler.found.clear()
    # In the middle of it the line ends, as at the frame of a panel.
    shown = Screens(screens._folder)
    with shown.showing(["printf", f"│ {KEYS[0][:15]}│\\n│{KEYS[0][15:]} │\\n"]) as tmux:
        tmux.until("ended 0", 20)
    assert "5d0c2f9e77" in _told(shown.seen)
    address = f"http://127.0.0.1:{webhook.server.server_port}/"
    body = f'{{"title": "x", "message": "{KEYS[0]}"}}'.encode()
    urllib.request.urlopen(urllib.request.Request(address, body), timeout=10).close()
    assert "5d0c2f9e77" in _told([str(webhook.got)])
