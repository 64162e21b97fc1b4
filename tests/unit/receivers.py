"""Where notifications go in tests: a webhook and a mail server on loopback, each as its protocol has it."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from email.message import EmailMessage

TOKEN, PASSWORD = "hunter2", "s3cr3t-of-the-mail"


class Webhook:
    """Takes JSON notifications; ``status`` is what it answers, with ``location`` where it leads elsewhere."""

    def __init__(self) -> None:
        self.got: list[dict[str, str]] = []
        self.status = 200
        self.location: str | None = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.got.append(json.loads(self.rfile.read(length)))
                self.send_response(outer.status)
                if outer.location is not None:
                    self.send_header("Location", outer.location)
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"json://tok:{TOKEN}@127.0.0.1:{self.server.server_port}/"

    def titles(self) -> list[str]:
        """The titles so far, in order."""
        return [one["title"] for one in self.got]


class Mailbox:
    """A mail server that wants a login (AUTH PLAIN or LOGIN) and keeps what it is given."""

    def __init__(self) -> None:
        self.got: list[EmailMessage] = []
        self.logins: list[str] = []
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                _converse(self, outer)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        port = self.server.server_address[1]
        self.address = (
            f"mailto://watch:{PASSWORD}@127.0.0.1:{port}?from=ddtune@example.org&to=oncall@example.org&mode=insecure"
        )

    def titles(self) -> list[str]:
        """The subjects so far, in order."""
        return [str(one["Subject"]) for one in self.got]


def _converse(handler: socketserver.StreamRequestHandler, box: Mailbox) -> None:
    def say(text: str) -> None:
        handler.wfile.write(text.encode() + b"\r\n")

    def ask(text: str) -> str:
        say(f"334 {text}")
        return base64.b64decode(handler.rfile.readline()).decode()

    logged_in = False
    say("220 loopback ESMTP")
    while line := handler.rfile.readline().decode().strip():
        verb, _, rest = line.partition(" ")
        match verb.upper():
            case "EHLO":
                say("250-loopback\r\n250 AUTH PLAIN LOGIN")
            case "AUTH":
                kind, _, first = rest.partition(" ")
                if kind.upper() == "PLAIN":
                    _, user, password = base64.b64decode(first).decode().split("\0") if first else ask("").split("\0")
                else:
                    user = base64.b64decode(first).decode() if first else ask("VXNlcm5hbWU6")
                    password = ask("UGFzc3dvcmQ6")
                box.logins.append(user)
                logged_in = password == PASSWORD
                say("235 welcome" if logged_in else "535 no")
            case "DATA" if logged_in:
                say("354 go on")
                lines = []
                while (text := handler.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(text[1:] if text.startswith(b".") else text)
                message = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
                assert isinstance(message, EmailMessage)
                box.got.append(message)
                say("250 kept")
            case "QUIT":
                say("221 bye")
                return
            case _:
                say("250 well")


@contextlib.contextmanager
def listening(receiver: Webhook | Mailbox) -> Iterator[None]:
    """``receiver`` while the block runs."""
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()
