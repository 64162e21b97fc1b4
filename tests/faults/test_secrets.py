"""A planted key, looked for in every file that a whole run writes on both sides and in every process meanwhile."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.guest import booted
from tests.e2e.onhost import STATE
from tests.e2e.operator import HOST, Operator
from tests.faults.site import LIMITS, UNIT, Site, adopt

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]
KEYS = ("sk-planted-5d0c2f9e77", "adm-planted-81b6aa04e3")
# Where a key is the service's own doing, or kept so that the service can start with it.
OWN = (f"/etc/systemd/system/{UNIT}", f"/run/ddtune/{UNIT}/chosen", f"{STATE}/base.json")


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
        ["find", root, "-xdev", "-name", "*.gz", "-exec", "zgrep", "-lF", *words, "{}", "+"],
        capture_output=True,
        text=True,
        check=False,
    )
    return sorted({prefix + line.removeprefix(str(root)) for line in (done.stdout + packed.stdout).splitlines()})


def _ours(path: str) -> bool:
    journal = path.startswith(("/var/log/journal/", "/run/log/journal/"))
    release = path.startswith(f"{STATE}/releases/") and path.endswith("/release.json")
    return not (journal or release or path in OWN or path.startswith("/run/systemd/"))


def test_a_planted_key_stays_where_it_was(tmp_path: Path) -> None:
    with booted(tmp_path) as guest:
        operator = Operator(guest, tmp_path / "operator", LIMITS)
        with _sampling() as sampler:
            site = adopt(guest, operator, ["--api-key", KEYS[0], "--admin-api-key", KEYS[1]])
            said = _run(site)
        # From here on the search itself has the keys among its arguments.
        on_host = _holding(Path(f"/proc/{guest._keeper.pid}/root{guest._base}/up"))
        on_host += _holding(guest.file("/run"), "/run")
        assert [path for path in on_host if _ours(path)] == []
        assert any(path.endswith("/release.json") for path in on_host), "the search finds what is there"
        for path in on_host:
            if path.startswith((STATE, "/run/ddtune")):
                assert not guest.file(path).stat().st_mode & 0o007, path
        assert _holding(operator.folder) == []
        assert not any(key in said for key in KEYS)
        assert sampler.looks > 20
        assert sampler.found == set()

        # And what leaks on purpose is found, in a file as in a process.
        (operator.folder / "leak.txt").write_text(KEYS[0])
        assert _holding(operator.folder) == ["/leak.txt"]
        leaking = subprocess.Popen(["sleep", "60"], env={"KEY": KEYS[1]})
        try:
            sampler._look(str(leaking.pid))
        finally:
            leaking.kill()
            leaking.wait()
        assert len(sampler.found) == 1


def _run(site: Site) -> str:
    """A commit, a rollback, and everything that can be asked; all that was said."""
    said = []
    for command in (
        ("switch", HOST, "t7", "--yes"),
        ("switch", HOST, "t3", "--yes", "--force"),
        ("status", HOST),
        ("doctor", HOST),
        ("history", HOST),
        ("gate", HOST, "--quick"),
        ("profiles", "show", "t7", "--host", HOST),
        ("watch", HOST, "--once"),
    ):
        answer = site.operator.run(*command, "--json", timeout=200)
        assert answer.code in (0, 3, 7, 9, 10), answer
        said.append(answer.out + answer.err)
    op = site.txn()["op"]
    answer = site.operator.run("evidence", HOST, op, "--json", timeout=60)
    said.append(answer.out + answer.err)
    return "\n".join(said)
