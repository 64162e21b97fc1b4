"""``runner.py PYZ``: a host's processes. Each line of standard input runs one on-host program in a fork of its own.

The program is the zipapp's own code. Around it are stand-ins for systemd, the journal, the engine's API and the clock,
and beneath it the calls that write are counted: the fork dies at the one that it is told, as by SIGKILL. What was
synced is told as well, so that a power cut can take the rest away.

Request: ``{"root", "verb", "args", "stdin", "env", "cut", "ahead_s", "boot", "unit"}``; ``unit`` is what systemd knows.
Answer: ``{"out", "rc", "died", "writes", "synced", "unit", "became"}``.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import time
from types import SimpleNamespace

PYZ = sys.argv[1]
sys.path.insert(0, PYZ)
sys.argv[0] = PYZ
NAMES = (
    "alive", "arming", "become", "canary", "choose", "choose_trial", "clock", "context", "ended", "ended_service",
    "guard", "hand", "helper", "inspect_process", "journal", "ledger", "main", "residue", "restore", "rollback",
    "store", "unit", "verbs_read", "verbs_release", "verbs_txn",
)  # fmt: skip
MODULES = {name: importlib.import_module(f"ddtune.onhost.{name}") for name in NAMES}
M = SimpleNamespace(**MODULES)
WAITS, WAIT_S = 40, 10.0


class WaitsError(BaseException):
    """The program would wait for something that only the world outside of it can bring about."""


class Fork:
    """One program's life."""

    def __init__(self, request: dict, answer: int) -> None:
        self.request, self.descriptor = request, answer
        self.unit = request["unit"]
        self.writes, self.synced = 0, []
        self.out = io.StringIO()
        self.became = None
        self.waits, self.waited_s = 0, 0.0

    def answer(self, rc: int | None, died: bool) -> None:
        said = {
            "out": self.out.getvalue(), "rc": rc, "died": died, "writes": self.writes, "synced": self.synced,
            "unit": self.unit, "became": self.became,
        }  # fmt: skip
        data = memoryview(json.dumps(said).encode() + b"\n")
        while data:
            data = data[_REAL["write"](self.descriptor, data) :]
        os._exit(0)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self.request["env"])
        sys.stdout, sys.stderr = self.out, io.StringIO()
        self.stand_in()
        self.count()
        rc = None
        try:
            rc = M.main.main([self.request["verb"], *self.request["args"]])
        except WaitsError:
            pass
        except BaseException as error:  # noqa: BLE001 (told to the test)
            self.out.write(f"{type(error).__name__}: {error}")
            rc = 70
        self.answer(rc, False)

    # Beneath the program.

    def count(self) -> None:
        for name in ("write", "fchmod", "fsync", "rename", "unlink", "symlink", "mkdir", "ftruncate"):
            setattr(os, name, self.counted(name))
        real_open = os.open

        def opened(path, flags, *args, **kwargs):
            if flags & os.O_CREAT and not os.path.exists(path):
                self.tick()
            return real_open(path, flags, *args, **kwargs)

        os.open = opened

    def counted(self, name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            self.tick()
            if name == "write" and self.writes == self.request["cut"]:
                # Torn in the middle.
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
                self.answer(None, True)
            found = real(*args, **kwargs)
            if name == "fsync":
                self.synced.append(_look(args[0]))
            return found

        return call

    def tick(self) -> None:
        if self.writes == self.request["cut"]:
            self.answer(None, True)
        self.writes += 1

    # Around the program.

    def stand_in(self) -> None:
        ahead, boot = self.request["ahead_s"], self.request["boot"]
        boottime, wall = M.clock.boottime, M.clock.wall
        M.clock.boottime = lambda: boottime() + ahead
        M.clock.wall = lambda: wall() + ahead
        M.clock.boot_id = lambda: boot
        M.unit.Systemctl._call = lambda _, argv, limit_s: self.systemctl(argv)
        for module in MODULES.values():
            if hasattr(module, "guard_alive"):
                module.guard_alive = lambda paths, op: self.unit["guard"] == op
            if hasattr(module, "read_process"):
                module.read_process = lambda pid: self.process(pid)
        M.alive.claim = lambda paths, op, limit_s=0: 0
        M.hand.Journal = lambda *_: SimpleNamespace(wait=self.wait, close=lambda: None)
        M.canary.abort_all = lambda *_: None
        M.canary.try_once = lambda *_: self.try_once()
        M.residue.clear = lambda *_: None
        M.residue.remember = lambda *_: None
        M.ended.hardware = lambda *_: False
        time.sleep = lambda seconds: self.wait(seconds) and None
        time.monotonic = lambda: self.waited_s
        os.execve = self.exec
        M.helper.read_request = lambda _: json.dumps(self.request["stdin"]).encode()
        M.helper.say = lambda said: self.out.write(json.dumps(said))
        M.arming.drop_in.drift = lambda *_: None
        M.arming._cursor = lambda *_: None
        install = M.unit.Install(root=self.request["root"], pyz=PYZ)
        for module in MODULES.values():
            if hasattr(module, "load_install"):
                module.load_install = lambda: install

    def wait(self, limit_s: float) -> list:
        self.waits += 1
        self.waited_s += limit_s
        # Both, for some look again each 20 ms and give up by themselves after some seconds.
        if self.waits > WAITS and self.waited_s > WAIT_S:
            raise WaitsError
        return []

    def try_once(self) -> str:
        if self.unit["serves"] == "wrong":
            raise M.canary.WrongError("nonsense")
        if self.unit["serves"] != "yes":
            raise M.canary.NotYetError("nothing")
        return "right"

    def process(self, pid: int):
        argv = self.unit["argv"]
        return M.inspect_process.Process(pid, tuple(argv), {}, "/", None) if argv and pid else None

    def exec(self, _program, argv, _env) -> None:
        self.became = [os.fsdecode(word) for word in argv]
        self.answer(0, False)

    def systemctl(self, argv: list[str]) -> str:
        unit, words = self.unit, [word for word in argv[1:] if not word.startswith("--")]
        if argv[0].endswith("systemd-run"):
            unit["guard"] = argv[-1]
            return ""
        verb, name = words[0], words[-1]
        if verb == "list-jobs":
            return f"1 {unit['name']} {unit['job']}\n" if unit["job"] else ""
        if verb == "show":
            known = {
                "ActiveState": unit["active"], "SubState": "running" if unit["active"] == "active" else "dead",
                "Result": unit["result"], "MainPID": "4242" if unit["active"] == "active" else "0",
                "InvocationID": unit["invocation"], "NRestarts": "0", "ExecMainStatus": "0", "ExecMainCode": "0",
                "StartLimitBurst": "9", "DropInPaths": "", "ExecStart": "",
            }  # fmt: skip
            return "".join(f"{prop}={known.get(prop, '')}\n" for prop in words[2].split(","))
        if name.startswith("ddtune-guard-"):
            if verb == "stop":
                unit["guard"] = None
        elif verb in ("start", "restart") and (verb == "restart" or unit["active"] != "active"):
            # choose, become and ended are programs of their own, which the test runs next.
            unit["todo"] = [*unit["todo"], *(["ended"] if unit["active"] == "active" else []), "start"]
            unit["asked"], unit["active"] = True, "activating"
        elif verb == "stop":
            unit["todo"] = ["ended"] if unit["active"] == "active" else []
            unit["asked"], unit["active"] = True, "inactive"
        return ""


_REAL = {"write": os.write}


def _look(descriptor: int):
    """What a sync has made durable: ``["dir", path, {name: inode or target}]`` or ``["file", inode, content]``."""
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    status = os.fstat(descriptor)
    if not os.path.isdir(path):
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            return ["file", status.st_ino, file.read().decode("latin-1")]
    entries = {}
    for entry in os.scandir(path):
        entries[entry.name] = os.readlink(entry.path) if entry.is_symlink() else entry.inode()
    return ["dir", path, entries]


def main() -> None:
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            Fork(json.loads(line), 1).run()
        os.waitpid(child, 0)


main()
