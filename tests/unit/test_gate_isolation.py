"""Hostile code in the sandbox, both kinds of it, as root and as a user."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddtune.gate import isolation
from ddtune.gate.isolation import Isolation

pytestmark = pytest.mark.isolation
KINDS = ("bubblewrap", "unshare")
ROOT = Path(__file__).parents[2]

# Each tells what it managed to do: "nothing" is the only good answer, and dying is as good.
HOSTILE = {
    "fork bomb": """
import os
def f():
    while True:
        os.fork()
""",
    "thread": """
import threading
def f():
    threading.Thread(target=print).start()
    return "a thread"
""",
    "delete": """
import os
def f():
    for path in ("{victim}", "/usr/bin/env", "/bin/env"):
        try:
            os.remove(path)
            return path
        except OSError:
            pass
    return "nothing"
""",
    "socket": """
import socket
def f():
    try:
        socket.create_connection(("127.0.0.1", {port}), 1)
        return "out"
    except OSError:
        return "nothing"
""",
    "environment": """
import os
def f():
    return os.environ.get("DDTUNE_SECRET", "nothing")
""",
    "files": """
def f():
    for path in ("{victim}", "/etc/passwd", "/etc/shadow", "/proc/1/environ", "/proc/self/environ"):
        try:
            return open(path).read()[:40]
        except OSError:
            pass
    return "nothing"
""",
    "kill the parent": """
import os, signal
def f():
    for pid in (os.getppid(), {pid}, 1):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return "nothing"
""",
    "fill the disk": """
def f():
    made = []
    for where in ("/", "/tmp", "/dev/shm", "/var/tmp", "/dev", "/usr"):
        try:
            open(where + "/full", "w").write("x")
            made.append(where)
        except OSError:
            pass
    return "".join(made) or "nothing"
""",
    "become root": """
import os
def f():
    try:
        os.setuid(0)
    except OSError:
        return "nothing"
    return "nothing" if os.getuid() else open("/proc/self/status").read()
""",
    "mount": """
import ctypes
def f():
    return "nothing" if ctypes.CDLL(None).mount(b"none", b"/usr", b"tmpfs", 0, None) else "mounted"
""",
}


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest) -> Isolation:
    made = Isolation(request.param)
    leak = isolation._leak(made)
    if leak is not None:
        pytest.skip(f"{made.kind} does not hold here: {leak}")
    return made


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_does_nothing(box: Isolation, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDTUNE_SECRET", "secret")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        code = HOSTILE[name].replace("{victim}", str(victim)).replace("{pid}", str(os.getpid()))
        code = code.replace("{port}", str(listening.getsockname()[1]))
        answer = box.run(code, "f", [[]], wall_s=5, modules=None)
    value = answer.get("values", [["died", answer.get("error")]])[0]
    assert value[0] != "ok" or value[1] == "nothing", answer
    assert victim.read_text() == "precious"


def test_endless_loops_end_in_time_and_leave_nobody(box: Isolation) -> None:
    begun = time.monotonic()
    answer = box.run("def f():\n    while True:\n        pass", "f", [[]], wall_s=1.5)
    assert "error" in answer
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    return len('x' * 10_000_000_000)",
        "def f():\n    x = []\n    while True:\n        x.append(bytearray(50_000_000))",
        "def f():\n    def g():\n        return g()\n    return g()",
        "def f():\n    return 'x' * 3_000_000",
        "def f():\n    raise SystemExit",
        "def f():\n    return f",
    ],
)
def test_what_is_too_large_or_no_value_is_an_error(box: Isolation, code: str) -> None:
    answer = box.run(code, "f", [[]], wall_s=8)
    assert answer.get("values", [["error"]])[0][0] == "error"


def test_one_process_runs_all_inputs_and_prints_reach_nobody(box: Isolation) -> None:
    code = "n = []\ndef f(x):\n    n.append(x)\n    print('{}', x)\n    return (x, len(n))"
    assert box.run(code, "f", [[5], [6]]) == {"values": [["ok", [5, 1]], ["ok", [6, 2]]]}


def test_imports_outside_the_list_do_not_load(box: Isolation) -> None:
    assert box.run("import os\ndef f():\n    return 1", "f", [[]]) == {"error": "ImportError while it was loaded"}
    assert box.run("def f():\n    return open('/etc/passwd')", "f", [[]]) == {"values": [["error", "NameError"]]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("kind", KINDS)
def test_a_user_without_rights_has_the_same_sandbox(kind: str) -> None:
    python = next((path for path in ("/usr/bin/python3", sys.executable) if usable(path)), None)
    if python is None:
        pytest.skip("there is no Python 3.11 that another user can run")
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom ddtune.gate.isolation import Isolation, _leak\n"
        f"box = Isolation({kind!r})\nprint(_leak(box), box.run('def f(x):\\n    return x', 'f', [[7]]))"
    )
    done = as_nobody(python, script)
    if "Operation not permitted" in done.stderr:
        pytest.skip("users may not make namespaces here")
    assert done.stdout.strip() == "None {'values': [['ok', 7]]}", done.stderr


def usable(python: str) -> bool:
    try:
        return as_nobody(python, "import sys; print(sys.version_info >= (3, 11))").stdout.strip() == "True"
    except OSError:
        return False


def as_nobody(python: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-B", "-c", script],
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_machine_without_either_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.shutil, "which", lambda name: None)
    probed = isolation.probe.__wrapped__()
    assert probed.isolation is None
    assert "bwrap is not here" in probed.reason


def test_a_sandbox_that_leaks_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_leak", lambda box: "it can fork" if box.kind == "bubblewrap" else None)
    assert isolation.probe.__wrapped__().isolation == Isolation("unshare")
