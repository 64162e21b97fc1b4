"""Notifications: each once, redacted, through apprise's own code, and never an address in what is said."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddtune.config.errors import ConfigError
from ddtune.rollout import notify
from ddtune.rollout.notify import Notifier, Told, addresses
from ddtune.rollout.sights import Notice
from tests.unit.receivers import PASSWORD, Mailbox, Webhook, listening

NOTICE = Notice("end 0007-b16 rolled_back", "end", "b300: rolled back (hang)", "switch to b16")


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    pytest.importorskip("apprise", reason="the extra notify is not installed")
    one = Webhook()
    with listening(one):
        yield one


def _notifier(folder: Path, *to: str, dry: bool = False) -> tuple[Notifier, list[str]]:
    said: list[str] = []
    return Notifier(to, Told(folder / "told.json"), said.append, dry=dry), said


def _tell(notifier: Notifier, *notices: Notice) -> int:
    return asyncio.run(notifier.tell(notices))


def test_each_is_told_once_also_by_the_next_watch(tmp_path: Path, webhook: Webhook) -> None:
    notifier, _ = _notifier(tmp_path, webhook.address)
    assert _tell(notifier, NOTICE) == 1
    assert _tell(notifier, NOTICE) == 0
    again, _ = _notifier(tmp_path, webhook.address)
    assert not again.fresh
    assert _tell(again, NOTICE) == 0
    assert [(one["title"], one["message"]) for one in webhook.got] == [(NOTICE.title, NOTICE.body)]
    assert webhook.got[0]["type"] == "info"


def test_keys_and_escapes_do_not_leave(tmp_path: Path, webhook: Webhook) -> None:
    notifier, said = _notifier(tmp_path, webhook.address)
    body = (
        "argv --api-key sk-planted-4711 --port 1\n\x1b]52;c;aGk=\x07[red]\u202eevil\n"
        "ServerArgs(port=1, api_key='sk-planted-4712', admin_api_key=sk-planted-4713)\n"
        "Authorization: Bearer sk-planted-4714\n"
        "Receive: obj=GenerateReqInput(text='what a user asked')"
    )
    _tell(notifier, Notice("k", "incident", "b300: \x1b[2Jhang", body))
    (one,) = webhook.got
    everything = json.dumps(one) + "\n".join(said)
    assert "sk-planted" not in everything
    assert "what a user asked" not in everything
    assert "\\u001b" not in everything
    assert "\x1b" not in everything
    assert "\u202e" not in everything
    assert one["type"] == "failure"
    assert "[red]" in one["message"], "text stays text"


def test_a_line_of_a_log_calls_nobody_and_is_no_header(tmp_path: Path, webhook: Webhook) -> None:
    """Whoever may write a line to the engine's log would else ring everybody's phone."""
    notifier, _ = _notifier(tmp_path, webhook.address)
    _tell(notifier, Notice("k", "incident", "b300: hang\nBcc: a@b.c", "@everyone <!channel> <@U0123> a@here.org 1<2"))
    (one,) = webhook.got
    assert "\n" not in one["title"]
    assert one["message"].replace("\u2060", "") == "@everyone <!channel> <@U0123> a@here.org 1<2"
    assert not any(call in one["message"] for call in ("@everyone", "<!channel", "<@U0123"))
    assert "1<2" in one["message"]


def test_by_mail(tmp_path: Path) -> None:
    pytest.importorskip("apprise", reason="the extra notify is not installed")
    mailbox = Mailbox()
    with listening(mailbox):
        notifier, said = _notifier(tmp_path, mailbox.address)
        _tell(notifier, NOTICE)
    (mail,) = mailbox.got
    assert (mail["Subject"], mail["To"]) == (NOTICE.title, "oncall@example.org")
    assert NOTICE.body in mail.get_content()
    assert mailbox.logins == ["watch"]
    assert PASSWORD not in "\n".join(said) + str(mail)


def test_an_address_is_never_said(tmp_path: Path, webhook: Webhook, caplog: pytest.LogCaptureFixture) -> None:
    webhook.status = 500
    notifier, said = _notifier(tmp_path, webhook.address, "nosuch://tok:hunter2@x")
    _tell(notifier, NOTICE)
    assert "a json notification could not be sent: again in 30 s" in said
    assert "a nosuch notification could not be sent: again in 30 s" in said
    assert "hunter2" not in "\n".join(said) + caplog.text


def test_a_dry_run_sends_nothing_and_says_to_whom(tmp_path: Path, webhook: Webhook) -> None:
    notifier, said = _notifier(tmp_path, webhook.address, dry=True)
    _tell(notifier, NOTICE)
    assert webhook.got == []
    assert said == [f"{NOTICE.title}: {NOTICE.body}", "dry run: would tell json"]


def test_what_was_there_before_the_first_watch_is_no_news(tmp_path: Path) -> None:
    notifier, said = _notifier(tmp_path)
    assert notifier.fresh
    notifier.known([NOTICE])
    assert _tell(notifier, NOTICE) == 0
    assert said == []


def test_addresses_that_others_may_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    assert addresses(path) == []
    path.write_text("# the pager\njson://x/\n\n  mailto://u:p@h  \n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        addresses(path)
    path.chmod(0o600)
    assert addresses(path) == ["json://x/", "mailto://u:p@h"]


def test_what_was_not_taken_is_sent_again_once_each(tmp_path: Path, webhook: Webhook) -> None:
    pytest.importorskip("apprise", reason="the extra notify is not installed")
    now, said = [0.0], list[str]()
    mailbox = Mailbox()
    webhook.status = 500
    with listening(mailbox):
        to = (webhook.address, mailbox.address)
        notifier = Notifier(to, Told(tmp_path / "told.json"), said.append, clock=lambda: now[0])
        assert _tell(notifier, NOTICE) == 1
        assert NOTICE.key not in Told(tmp_path / "told.json"), "a watch that starts now has it to tell"
        webhook.status = 200
        got = len(webhook.got)
        assert _tell(notifier, NOTICE) == 0
        assert len(webhook.got) == got, "not before its time"
        now[0] = 31
        for _ in range(3):
            assert _tell(notifier) == 0
            now[0] += 4000
    assert len(webhook.got) == got + 1
    assert len(mailbox.got) == 1, "who took it hears it once"
    assert NOTICE.key in Told(tmp_path / "told.json")


def test_tries_have_an_end_and_so_has_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, said, tried = [0.0], list[str](), list[str]()
    monkeypatch.setattr(notify, "_send", lambda _address, notice: bool(tried.append(notice.key)))
    notifier = Notifier(("json://x",), Told(tmp_path / "told.json"), said.append, clock=lambda: now[0])
    for _ in range(40):
        _tell(notifier, NOTICE)
        now[0] += notify.MOST_WAIT_S
    assert len(tried) == notify.TRIES
    assert "given up" in said[-1]
    tried.clear()
    many = [Notice(f"k{number}", "end", f"t{number}", "") for number in range(notify.WAITING + 5)]
    _tell(notifier, *many)
    assert [line for line in said if "too many wait" in line] == [
        f"given up, as too many wait: t{number}" for number in range(5)
    ]


def test_a_redirect_is_no_receipt(tmp_path: Path, webhook: Webhook) -> None:
    """It turns the POST into a GET, which any page answers with 200."""
    webhook.status, webhook.location = 302, "/elsewhere"
    notifier, said = _notifier(tmp_path, webhook.address)
    _tell(notifier, NOTICE)
    assert "a json notification could not be sent: again in 30 s" in said
    assert NOTICE.key not in Told(tmp_path / "told.json")


def test_who_hangs_is_not_waited_for_nor_asked_again_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, sent = threading.Event(), list[tuple[str, str]]()

    def send(address: str, notice: Notice) -> bool:
        sent.append((address, notice.key))
        return address == "good://" or answers.wait(20)

    async def run() -> None:
        monkeypatch.setattr(notify, "_send", send)
        monkeypatch.setattr(notify, "SEND_S", 0.05)
        notifier, said = _notifier(tmp_path, "hangs://", "good://")
        other = Notice("other", "end", "other", "")
        await notifier.tell([NOTICE])
        await notifier.tell([other])
        assert sorted(sent) == [("good://", NOTICE.key), ("good://", "other"), ("hangs://", NOTICE.key)]
        assert said.count("a hangs notification could not be sent: again in 30 s") == 2
        answers.set()
        async with asyncio.timeout(10):
            while notifier._hung:  # noqa: ASYNC110 (a thread's answer is waited for)
                await asyncio.sleep(0.01)
        assert notifier._waiting[NOTICE.key].to == (), "it took its time, and has it"
        assert notifier._waiting["other"].to == ("hangs://",)

    asyncio.run(run())


SENDS = """\
import asyncio, sys
from pathlib import Path
from ddtune.rollout import notify
from ddtune.rollout.sights import Notice
notify.SEND_S = 0.5
notifier = notify.Notifier((sys.argv[1],), notify.Told(Path(sys.argv[2])), print)
asyncio.run(notifier.tell([Notice("k", "end", "t", "b")]))
notify.leave(5)
"""


def test_a_receiver_that_answers_a_byte_at_a_time_keeps_no_watch_from_its_end(tmp_path: Path) -> None:
    """Each byte begins apprise's time limit anew."""
    pytest.importorskip("apprise", reason="the extra notify is not installed")
    over = threading.Event()

    def drip() -> None:
        link, _ = server.accept()
        with link, contextlib.suppress(OSError):
            while not over.wait(0.5):
                link.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        address = f"json://127.0.0.1:{server.getsockname()[1]}/"
        command = [sys.executable, "-c", SENDS, address, str(tmp_path / "told.json")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        finally:
            over.set()
    assert "a json notification could not be sent" in done.stdout, done.stderr
    assert done.returncode == 5


def test_a_full_disk_is_said_once_and_nothing_is_told_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notify, "replace_text", full)
    notifier, said = _notifier(tmp_path)
    notifier.known([])
    assert not notifier.fresh
    assert [_tell(notifier, NOTICE) for _ in range(2)] == [1, 0]
    _tell(notifier, Notice("other", "end", "other", ""))
    assert len([line for line in said if "No space left" in line]) == 1
