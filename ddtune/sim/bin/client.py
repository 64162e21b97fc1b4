"""What the stand-ins of systemctl, systemd-run and journalctl run: hands its command line to the supervisor.

Run by ``bare.command("bin.client", SOCKET, PROGRAM, ARGUMENT…)``. Answers are frames of
one byte and a length: ``o`` standard output, ``e`` standard error, ``x`` the exit status as text.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys


def _exactly(link: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = link.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main() -> int:
    path, program, *argv = sys.argv[1:]
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(path)
        link.sendall(json.dumps({"program": program, "argv": argv}).encode() + b"\n")
        poll = select.poll()
        poll.register(link, select.POLLIN)
        poll.register(1, 0)  # a reader of ours that has gone ends a followed journal
        while True:
            for fd, _ in poll.poll():
                if fd == 1:
                    return 0
            head = _exactly(link, 5)
            kind, data = head[:1], _exactly(link, int.from_bytes(head[1:], "big"))
            if kind == b"x":
                return int(data)
            _write(1 if kind == b"o" else 2, data)
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    except (ConnectionError, FileNotFoundError):
        print("Failed to connect to bus: No such file or directory", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
