"""An adopted host whose helper answers in this process, in any phase of a transaction, and as it was for each request.

What the helper would start is answered here and noted, but for the service's engine, which is a real process.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ddtune.onhost import alive, helper, ledger, releases, shout, store
from ddtune.onhost.paths import Paths
from tests.unit.onhost_helper import shapes
from tests.unit.onhost_helper.host import HERE, OWNER, UNIT, Host

OP = "20261129185959-abc"
OTHER = "sglang-other.service"
KEY = "sk-of-the-service"
OWN = ("var/lib/ddtune/", "run/ddtune/")
_NO_PROCESS = 2**22 + 7
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_CLONE_NEWNS = 0x20000
_SYSTEMCTL = compile((HERE / "fake_systemctl.py").read_text(), "fake_systemctl", "exec")
_SAID = {
    "answers": [],
    "seconds": 0,
    "version": "0.5.23",
    "folder": "/nowhere",
    "t": "end",
    "candidate": {"stage": "accepted", "text": ""},
    "control": {"stage": "accepted"},
}

Entry = tuple[Any, ...]
Tree = dict[str, Entry]


class Files:
    """All below a root: what each path is and holds, and beside it its inode and time of change."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[Entry, bytes] = {}

    def read(self) -> tuple[Tree, Tree]:
        """What is there, and the stamps of it."""
        found: Tree = {}
        stamps: Tree = {}
        for folder, names, files in os.walk(self._root):
            for name in [*names, *files]:
                path = f"{folder}/{name}"
                inside = path[len(str(self._root)) + 1 :]
                if inside.startswith(("systemd", "tools")):
                    continue
                status = os.lstat(path)
                stamps[inside] = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
                found[inside] = (status.st_mode, status.st_uid, status.st_gid, self._content(path, status))
        return found, stamps

    def _content(self, path: str, status: os.stat_result) -> bytes:
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(path).encode()
        if not stat.S_ISREG(status.st_mode):
            return b""
        key = (path, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        if key not in self._held:
            self._held[key] = Path(path).read_bytes()
        return self._held[key]

    def write(self, wanted: Tree) -> None:
        """Makes the root hold ``wanted`` and nothing else."""
        now, _ = self.read()
        changed = {path for path in {*now, *wanted} if now.get(path) != wanted.get(path)}
        for path in sorted(changed & set(now), reverse=True):
            place = self._root / path
            place.rmdir() if stat.S_ISDIR(now[path][0]) and path not in wanted else None
            if not stat.S_ISDIR(now[path][0]):
                place.unlink()
        for path in sorted(changed & set(wanted)):
            mode, _, _, data = wanted[path]
            place = self._root / path
            if stat.S_ISDIR(mode):
                place.mkdir(exist_ok=True)
            elif stat.S_ISLNK(mode):
                place.symlink_to(data.decode())
            else:
                place.write_bytes(data)
            if not stat.S_ISLNK(mode):
                place.chmod(stat.S_IMODE(mode))


class Ground:
    """The host. ``phases`` are states that it can be put into, ``argvs`` what the last request started.

    ``passed`` says whether it passed the schema, ``shares`` how many of how many did, a pair for each verb. ``usual``
    are the words of what good requests start.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.paths = Paths(str(host.root)).unit(UNIT)
        self.argvs: list[list[str]] = []
        self.given: list[str] = []
        self.passed = False
        self.shares: list[tuple[int, int]] = []
        self._files = Files(host.root)
        self._guard: int | None = None
        self._memory = json.loads((host.root / f"systemd/{UNIT}.json").read_text())
        self._starts = 0
        self.phases: dict[str, Tree] = {}
        self.usual: set[str] = set()
        self._release: dict[str, Any] = {}
        self.known: dict[str, Any] = {}

    # what the helper starts

    def run(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Stands in for ``subprocess.run``."""
        self._note(argv, options)
        status, out, err = self._answer(list(argv), options)
        text = options.get("text")
        return subprocess.CompletedProcess(argv, status, out if text else out.encode(), err if text else err.encode())

    def _note(self, argv: Sequence[str], options: dict[str, Any]) -> None:
        assert not options.get("shell"), argv
        assert not isinstance(argv, str), argv
        self.argvs.append(list(argv))
        if isinstance(options.get("input"), str):
            self.given.append(options["input"])

    def _answer(self, argv: list[str], options: dict[str, Any]) -> tuple[int, str, str]:
        tools = self.host.constants
        if argv[0] == tools["systemctl"]:
            return self._systemctl(argv[1:])
        if argv[0] == tools["systemd_run"]:
            with suppress(OSError, store.DiskFull):
                self.claim(argv[-1], self.paths._replace(unit=argv[-2]))
                return 0, "", ""
            return 1, "", "the guard could not begin"
        if argv[0] == tools["journalctl"]:
            return 0, "-- cursor: s=1;i=2\n" if "--show-cursor" in argv else "", ""
        return 0, "", ""

    def _systemctl(self, arguments: list[str]) -> tuple[int, str, str]:
        words = [word for word in arguments if word not in ("--no-pager", "--no-block", "--no-legend", "--full")]
        verb, unit = words[0], words[-1]
        memory = self.host.root / f"systemd/{unit}.json"
        if verb in ("start", "stop", "restart", "kill"):
            if not memory.exists():
                return 5, "", f"Unit {unit} not loaded."
            up = verb in ("start", "restart")
            self._starts += 1
            now = {"ActiveState": "active" if up else "inactive", "SubState": "running" if up else "dead"}
            now |= {"MainPID": self._memory["MainPID"] if up else "0"}
            now |= {"InvocationID": f"{self._starts:032x}"} if up else {}
            memory.write_text(json.dumps({**json.loads(memory.read_text()), **now}))
            return 0, "", ""
        if verb == "list-jobs":
            return 0, "", ""
        out, argv, stdout = io.StringIO(), sys.argv, sys.stdout
        sys.argv, sys.stdout = ["fake", str(self.host.root), *arguments], out
        try:
            exec(_SYSTEMCTL, {"__name__": "fake"})
        except SystemExit as error:
            return 1, out.getvalue(), str(error)
        finally:
            sys.argv, sys.stdout = argv, stdout
        return 0, out.getvalue(), ""

    def claim(self, op: str, paths: Any) -> None:
        """The guard of ``op`` lives."""
        self.release()
        self._guard = alive.claim(paths, op, 0.0)

    def release(self) -> None:
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None

    # what is asked

    def ask(self, request: Any, reading: bool = False) -> tuple[dict[str, Any], str]:
        """The one answer to ``request``, and what was said beside it."""
        raw = json.dumps(request).encode("utf-8", "surrogatepass")
        self.argvs, self.given, self.passed = [], [], False
        given = os.memfd_create("request")
        out, err, before = io.TextIOWrapper(io.BytesIO()), io.StringIO(), (sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = out, err
        try:
            os.write(given, raw)
            os.lseek(given, 0, os.SEEK_SET)
            helper.say(helper.answer(helper.read_request(given), helper.READING if reading else helper.VERBS))
        finally:
            sys.stdout, sys.stderr = before
            os.close(given)
        said = out.buffer.getvalue()  # type: ignore[attr-defined]  # it is the BytesIO from above
        assert said.count(b"\n") == 1, said
        assert said.endswith(b"\n"), said
        return json.loads(said), err.getvalue()

    def good(self, verb: str, **fields: Any) -> dict[str, Any]:
        answer, _ = self.ask({"proto": 1, "verb": verb, "unit": UNIT, **fields})
        assert answer["ok"], answer
        self.usual.update(word for argv in self.argvs for word in argv)
        return answer

    def read(self) -> tuple[Tree, Tree]:
        return self._files.read()

    def enter(self, phase: str) -> None:
        """The host as it was when ``phase`` was kept."""
        self.release()
        self._files.write(self.phases[phase])
        (self.host.root / f"systemd/{UNIT}.json").write_text(json.dumps(self._memory))
        self.known[shapes.INVOCATION] = self._memory["InvocationID"]
        with suppress(OSError, ledger.TxnError):
            txn = ledger.load(self.paths)
            if txn is not None and not txn.settled:
                self.claim(txn.op, self.paths)

    def keep(self, phase: str) -> None:
        self.phases[phase], _ = self.read()

    def placed(self, request: Any) -> Any:
        return shapes.placed(request, self.known)

    def make_phases(self) -> None:
        """Each phase from the one before it, by requests as ddtune sends them."""
        stable = self.good("state")["stable"]["release"]
        base = self.good("base")
        self._release = {"argv": [*base["argv"], "--speculative-ddtree-budget", "16"], "cwd": base["cwd"],
                         "env_set": {}, "env_unset": [], "schema": 1}  # fmt: skip
        candidate = self.good("put_release", release=self._release, meta={"profile": "b16"})["release"]
        shutil.copytree(self.paths.state, Path(self.paths.state).parent / OTHER, symlinks=True)
        self.known |= {shapes.UNIT: UNIT, shapes.OTHER_UNIT: OTHER, shapes.OP: OP, shapes.STABLE: stable}
        self.known |= {shapes.CANDIDATE: candidate, shapes.ARGV: base["argv"], shapes.CWD: base["cwd"]}
        self.keep("adopted")
        order = {"op": OP, "kind": "switch", "owner": OWNER, "candidate": candidate, "lease_s": 86400.0,
                 "start_deadline_s": 86400.0, "confirm_deadline_s": 86400.0, "traffic": "held"}  # fmt: skip
        self.good("arm", **order)
        self.keep("armed")
        self.good("swap", op=OP)
        self.keep("swapped")
        self.good("stop", op=OP)
        self.good("start", op=OP)
        self._as_chosen()
        self.good("ready", op=OP)
        self.keep("ready")
        self.good("soak", op=OP)
        self.keep("soak")
        self.good("fail", op=OP, cause="hang", evidence=[{"text": "no progress"}])
        self.keep("failed")
        self.enter("armed")
        self.good("abort", op=OP)
        self.keep("aborted")
        self.enter("adopted")
        self.good("unadopt")
        self.keep("installed")

    def _as_chosen(self) -> None:
        """The candidate's start, as the launcher notes it."""
        txn = json.loads(Path(self.paths.txn).read_text())
        txn["trial_invocation"] = self._memory["InvocationID"]
        store.write_json(self.paths.txn, txn)

    # what must hold

    def check_kept(self) -> None:
        """All that ddtune keeps can be read, and the next call reads it."""
        for folder in OWN:
            for path in (self.host.root / folder).rglob("*"):
                assert ".tmp." not in path.name, path
                if path.suffix == ".json" and path.is_file():
                    assert store.read_json(str(path)) is not None, path
                elif path.suffix == ".jsonl":
                    lines = path.read_bytes().splitlines()
                    assert len(store.read_lines(str(path))) == len(lines), path
        ledger.load(self.paths)
        for entry in releases.listed(self.paths):
            releases.read(self.paths, entry["release"])
        # One more beside those that are there: what is listed is sorted.
        self.ask({"proto": 1, "verb": "put_release", "unit": UNIT, "release": self._release})
        for verb in ("state", "inspect", "hello"):
            answer, _ = self.ask({"proto": 1, "verb": verb, "unit": None if verb == "hello" else UNIT})
            assert answer["ok"], (verb, answer)

    def noted(self, check: Callable[..., Any]) -> Callable[..., Any]:
        """``schema.fields``, noting that a request passed it."""

        def fields(*arguments: Any) -> Any:
            found = check(*arguments)
            self.passed = True
            return found

        return fields


class _Process:
    """Stands in for a ``Popen`` of ``as_user``."""

    returncode = 0
    pid = _NO_PROCESS

    def __init__(self, out: bytes) -> None:
        self._out = out

    def communicate(self, *_: Any, **__: Any) -> tuple[bytes, bytes]:
        return self._out, b""

    def wait(self, *_: Any) -> int:
        return 0


@contextmanager
def ground(host: Host) -> Iterator[Ground]:
    """``host`` adopted, and its helper in this process."""
    host.adopted("--api-key", KEY)
    for folder in ("home/ops", "etc/sglang", "usr/sbin"):
        (host.root / folder).mkdir(parents=True, exist_ok=True)
    (host.root / "etc/shadow").write_text("root:*\n")
    nft = host.root / "usr/sbin/nft"
    nft.write_text("")
    nft.chmod(0o755)
    made, cwd = Ground(host), os.getcwd()

    def popen(argv: Sequence[str], **options: Any) -> _Process:
        made._note(argv, options)
        help_text = b"options:\n  --port PORT\n  --api-key KEY\n"
        return _Process(help_text if argv[-1] == "--help" else json.dumps(_SAID).encode())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(host.root / "usr/local/lib/ddtune/1/ddtune-onhost.pyz"), "helper"])
        patch.setattr(subprocess, "run", made.run)
        patch.setattr(subprocess, "Popen", popen)
        patch.setattr(helper.schema, "fields", made.noted(helper.schema.fields))
        patch.setattr(shout, "open", lambda *_, **__: io.StringIO(), raising=False)
        os.chdir(host.root / "home/ops")
        try:
            made.make_phases()
            yield made
        finally:
            made.release()
            os.chdir(cwd)


@contextmanager
def read_only(root: Path) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Calls what it is given where the host's files below ``root`` are mounted read-only; nobody else sees that."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(path: Path | str, flags: int) -> None:
        done = libc.mount(b"none", os.fsencode(path), None, ctypes.c_ulong(flags), None)
        assert done == 0, os.strerror(ctypes.get_errno())

    def enter() -> None:
        assert libc.unshare(_CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
        mount("/", _MS_REC | _MS_PRIVATE)
        for name in ("var", "run", "etc", "usr", "home"):
            path = os.fsencode(root / name)
            assert libc.mount(path, path, None, ctypes.c_ulong(_MS_BIND), None) == 0
            mount(root / name, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)

    with ThreadPoolExecutor(1, initializer=enter) as thread:
        yield lambda act: thread.submit(act).result()
