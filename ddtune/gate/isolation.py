"""A place to run generated code: no network, a read-only tree, no processes, little memory and little time.

bubblewrap where it works, else plain namespaces by ``unshare``, else none, and then no generated code runs. It is tried
once, with a program that tries to break out of it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_MODULES = """
    __future__ abc array bisect collections collections.abc copy dataclasses datetime decimal enum fractions
    functools heapq  itertools math numbers operator random re statistics string textwrap typing unicodedata
"""
ALLOWED_MODULES = _MODULES.split()
LIMITS = {
    "AS": 512 * 1024 * 1024,
    "CPU": 5,
    "FSIZE": 256 * 1024,
    "NOFILE": 16,
    "CORE": 0,
    # Last: from here on no process and no thread can be made.
    "NPROC": 0,
}
WALL_S = 10.0

_SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin")
_PROBE = """
import os, socket
def probe(root):
    found = []
    for path in ("/usr/ddtune-probe", "/tmp/ddtune-probe", "/ddtune-probe", "/dev/shm/ddtune-probe"):
        try:
            open(path, "w").close()
            found.append("it can write " + path)
        except OSError:
            pass
    try:
        if os.fork() == 0:
            os._exit(0)
        found.append("it can fork")
    except OSError:
        pass
    if any(name != "lo" for _, name in socket.if_nameindex()):
        found.append("it sees the network")
    if os.path.exists(root):
        found.append("it sees " + root)
    return found
"""
_UNSHARE = """set -e
root=$1; shift
mount -t tmpfs -o size=64k,mode=755 none "$root"
while [ "$1" != -- ]; do
  mkdir -p "$root$1"
  mount --rbind "$1" "$root$1"
  mount -o remount,bind,ro "$root$1"
  shift
done
shift
mkdir "$root/dev"
: > "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount -o remount,bind,ro "$root"
cd /
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Isolation:
    """A working sandbox of one ``kind``: ``bubblewrap`` or ``unshare``."""

    kind: str

    def run(
        self,
        code: str,
        function: str,
        inputs: list[list[Any]],
        wall_s: float = WALL_S,
        modules: list[str] | None = ALLOWED_MODULES,
    ) -> Mapping[str, Any]:
        """Call ``function`` of ``code`` on each of ``inputs`` (argument lists): ``{values}`` or ``{error}``.

        Blocks for at most ``wall_s``. ``modules`` are what the code may import; None lifts Python's own bars.
        """
        drop = os.geteuid() == 0 and self.kind == "bubblewrap"
        task = {
            "code": code,
            "function": function,
            "inputs": inputs,
            "modules": modules,
            "limits": LIMITS,
            "drop": drop,
        }
        program = Path(__file__).with_name("sandboxed.py").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="ddtune-") as folder, tempfile.TemporaryFile() as answer:
            argv = self._argv(folder, [_python(), "-I", "-S", "-B", "-c", program])
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
                start_new_session=True,
            )
            try:
                process.communicate(json.dumps(task).encode(), timeout=wall_s)
            except subprocess.TimeoutExpired:
                return {"error": f"not done after {wall_s:.0f} s"}
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            answer.seek(0)
            return _parse(answer.read())

    def _argv(self, folder: str, command: list[str]) -> list[str]:
        root = os.geteuid() == 0
        if self.kind == "bubblewrap":
            return [*_bubblewrap(root), "--", *command]
        argv = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        leave = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        if root:
            leave += ["--reuid=65534", "--regid=65534", "--clear-groups"]
        else:
            argv += ["--user", "--map-root-user"]
        return [*argv, "sh", "-c", _UNSHARE, "sh", folder, *_tree(), "--", "/usr/bin/setpriv", *leave, *command]


def _bubblewrap(root: bool) -> list[str]:
    argv = ["bwrap", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    argv += ["--die-with-parent", "--new-session"]
    # Root leaves by setuid inside, for which a user namespace would have no other user.
    argv += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if root else ["--unshare-user"]
    for path in _tree():
        # Folders that a bind makes on its way are closed to all but their owner.
        for parent in reversed(Path(path).parents[:-1]):
            argv += ["--perms", "0755", "--dir", str(parent)]
        argv += ["--ro-bind", path, path]
    return [*argv, "--dev-bind", "/dev/null", "/dev/null", "--remount-ro", "/", "--chdir", "/"]


@dataclass(frozen=True)
class Probed:
    """What this machine has: a sandbox, or the reason why there is none."""

    isolation: Isolation | None
    reason: str = ""


@cache
def probe() -> Probed:
    """Try what there is, best first; once for the life of this process."""
    reasons = []
    for kind, program in (("bubblewrap", "bwrap"), ("unshare", "unshare")):
        if sys.platform != "linux" or shutil.which(program) is None:
            reasons.append(f"{program} is not here")
            continue
        leak = _leak(Isolation(kind))
        if leak is None:
            return Probed(Isolation(kind))
        reasons.append(f"{program} does not hold: {leak}")
    return Probed(None, "; ".join(reasons))


def _leak(isolation: Isolation) -> str | None:
    """What the probe could do that it must not, or why it did not run; None where it holds."""
    own = Path(__file__).resolve().parent
    hidden = "/home" if any(own.is_relative_to(path) for path in _tree()) else str(own)
    try:
        answer = isolation.run(_PROBE, "probe", [[hidden]], modules=None)
    except OSError as error:
        return str(error)
    if "values" not in answer:
        return str(answer.get("error"))
    verdict, value = answer["values"][0]
    if verdict != "ok":
        return f"the probe ended with {value}"
    return ", ".join(value) or None


def _tree() -> list[str]:
    """What the interpreter needs to see, read-only."""
    paths = [path for path in _SYSTEM if os.path.isdir(path)]
    for extra in (os.path.realpath(sys.base_prefix), os.path.dirname(_python())):
        if not any(Path(extra).is_relative_to(path) for path in paths):
            paths.append(extra)
    return paths


def _python() -> str:
    """The interpreter behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _parse(raw: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        return {"error": "it died or was stopped by a limit"}
    return body if isinstance(body, dict) else {"error": "it answered nonsense"}
