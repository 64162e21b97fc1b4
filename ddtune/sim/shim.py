"""One activation of one unit: the parent of all its processes, as a control group would hold them.

Run by ``bare.command("shim", FD, JOURNAL_SOCKET)``. It reads JSON lines on the socket FD and answers there:

``{"do": "spawn", "tag", "argv", "env", "cwd", "journal": {…}}`` → ``{"tag", "pid", "error": text | null}``
``{"do": "kill", "tag", "sig", "pid": int | null}`` → ``{"tag", "hit": [[pid, name], …]}``; no pid: all of them
``{"do": "purge", "tag"}`` → ``{"tag", "hit": […]}`` once nothing is left
and at each end of a process that it spawned ``{"exit": pid, "how": "exited" | "killed" | "dumped", "status": int}``.
At end of file it kills what is left and ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from typing import Any

from ddtune.sim import procs


def _in_child(request: dict[str, Any], journal: str, report: int) -> None:
    """Becomes the program asked for; its output goes to the journal as a stream of its own."""
    os.setsid()
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(sig, signal.SIG_DFL)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(journal)
    stream.sendall(json.dumps({**request["journal"], "pid": os.getpid()}).encode() + b"\n")
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stream.fileno(), 1)
    os.dup2(stream.fileno(), 2)
    status = os.fstat(1)
    env = dict(request["env"], JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}", SYSTEMD_EXEC_PID=str(os.getpid()))
    try:
        os.chdir(request["cwd"])
        os.execve(request["argv"][0], request["argv"], env)
    except OSError as error:
        text = f"{request['argv'][0]}: {error.strerror}"
        os.write(report, text.encode())
        os.write(2, f"{request['journal']['unit']}: Failed at step EXEC spawning {text}\n".encode())


def _spawn(request: dict[str, Any], journal: str) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _in_child(request, journal, writing)
        finally:
            os._exit(203)
    os.close(writing)
    # The pipe closes on exec, so end of file says that the program runs.
    with open(reading, "rb") as pipe:
        error = pipe.read().decode("utf-8", "replace")
    return {"pid": pid, "error": error or None}


def _kill(request: dict[str, Any]) -> list[tuple[int, str]]:
    below = procs.descendants(os.getpid())
    hit = [one for one in below if request["pid"] in (None, one[0])]
    for pid, _ in hit:
        procs.send(pid, request["sig"])
    return hit


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    journal = sys.argv[2]
    procs.become_subreaper()
    waking, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    for sig in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *_: None)
    own: set[int] = set()

    def say(message: dict[str, Any]) -> None:
        link.sendall(json.dumps(message).encode() + b"\n")

    def tell(ended: list[tuple[int, int]]) -> None:
        for pid, status in ended:
            if pid in own:
                own.discard(pid)
                if os.WIFEXITED(status):
                    say({"exit": pid, "how": "exited", "status": os.WEXITSTATUS(status)})
                else:
                    how = "dumped" if os.WCOREDUMP(status) else "killed"
                    say({"exit": pid, "how": how, "status": os.WTERMSIG(status)})

    def serve(request: dict[str, Any]) -> None:
        if request["do"] == "spawn":
            answer = _spawn(request, journal)
            own.add(answer["pid"])
        elif request["do"] == "kill":
            answer = {"hit": _kill(request)}
        else:
            hit, ended = procs.purge()
            tell(ended)
            answer = {"hit": hit}
        say({"tag": request["tag"], **answer})

    buffer = b""
    try:
        while True:
            ready, _, _ = select.select([link.fileno(), waking], [], [])
            if waking in ready:
                os.read(waking, 4096)
                tell(procs.reap())
            if link.fileno() in ready:
                data = link.recv(65536)
                if not data:
                    return
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    serve(json.loads(line))
    except OSError:
        return
    finally:
        procs.purge()


if __name__ == "__main__":
    main()
