"""Sends generations to the engine on this host's loopback and brings the answers back; judges nothing.

One load is in flight on a host, whoever asks: a name in the abstract socket namespace, made of the root folder and the
API port, is held while it runs and vanishes with the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import queue
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from .loopback import Loopback

MAX_BODY = 4 * 1024 * 1024
CONNECT_S = 5.0


def lock_name(root: str, port: int) -> str:
    """The abstract socket that says that a load is in flight."""
    digest = hashlib.sha256(f"{root}\0{port}".encode()).hexdigest()[:16]
    return f"\0ddtune-load-{digest}"


def run(request: Dict[str, Any]) -> Dict[str, Any]:
    """Send ``requests``, at most ``concurrency`` at a time, and give ``{"answers": [...], "seconds": s}``.

    Each request is ``{id, path, body, timeout_s}``. What ``deadline_s`` cuts is an answer with ``error_kind`` ``cut``,
    and its connection is closed, so that the engine stops too. With ``stop_on_error`` nothing is sent after an error.
    ``{"busy": true}`` when another load is in flight.
    """
    port = int(request["api_port"])
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(lock_name(request.get("root", ""), port))
    except OSError:
        lock.close()
        return {"busy": True}
    try:
        return Load(request, port).run()
    finally:
        lock.close()


class Load:
    """One load: a queue of requests, threads that empty it, answers by position."""

    def __init__(self, request: Dict[str, Any], port: int) -> None:
        self.requests: List[Dict[str, Any]] = list(request["requests"])
        self.timeout_s = float(request.get("timeout_s") or 60.0)
        self.begun = time.monotonic()
        self.deadline = self.begun + float(request.get("deadline_s") or 600.0)
        self.threads = max(1, min(int(request.get("concurrency") or 1), len(self.requests)))
        self.stop_on_error = bool(request.get("stop_on_error"))
        self.port = port
        self.headers = {"Content-Type": "application/json"}
        if request.get("api_key"):
            self.headers["Authorization"] = f"Bearer {request['api_key']}"
        self.todo: queue.Queue[int] = queue.Queue()
        self.answers: List[Optional[Dict[str, Any]]] = [None] * len(self.requests)
        self.open: Dict[int, http.client.HTTPConnection] = {}
        self.stopped = threading.Event()
        self.guard = threading.Lock()

    def run(self) -> Dict[str, Any]:
        """Send everything and wait until it is done or cut."""
        for position in range(len(self.requests)):
            self.todo.put(position)
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(self.threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(max(0.0, self.deadline - time.monotonic()))
        self.stopped.set()
        with self.guard:
            answers = list(self.answers)
            self._hang_up()
        done = [answer if answer is not None else self._unanswered(position) for position, answer in enumerate(answers)]
        return {"answers": done, "seconds": round(time.monotonic() - self.begun, 3)}

    def _unanswered(self, position: int) -> Dict[str, Any]:
        late = time.monotonic() >= self.deadline
        kind, text = ("cut", "cut by time") if late else ("not_sent", "not sent after an earlier error")
        return {"id": self.requests[position]["id"], "error": text, "error_kind": kind}

    def _hang_up(self) -> None:
        for connection in self.open.values():
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _work(self) -> None:
        while not self.stopped.is_set() and not self._late():
            try:
                position = self.todo.get_nowait()
            except queue.Empty:
                return
            answer = self._one(position)
            with self.guard:
                if not self.stopped.is_set() or not self._late():
                    self.answers[position] = answer
            if self.stop_on_error and answer.get("error"):
                self.stopped.set()

    def _late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _one(self, position: int) -> Dict[str, Any]:
        asked = self.requests[position]
        begun = time.monotonic()
        limit = min(float(asked.get("timeout_s") or self.timeout_s), max(0.1, self.deadline - begun))
        connection = Loopback(self.port, min(CONNECT_S, limit))
        with self.guard:
            self.open[position] = connection
        try:
            status, raw = self._post(connection, asked, limit)
            answer = read_answer(status, raw)
        except socket.timeout:
            kind = "cut" if self._late() else "timeout"
            answer = {"error": f"no answer in {limit:.0f} s", "error_kind": kind}
        except (OSError, http.client.HTTPException) as error:
            answer = {"error": f"the connection was lost: {error or type(error).__name__}", "error_kind": "connection"}
        finally:
            with self.guard:
                self.open.pop(position, None)
            connection.close()
        answer["id"] = asked["id"]
        answer["seconds"] = round(time.monotonic() - begun, 3)
        return answer

    def _post(self, connection: http.client.HTTPConnection, asked: Dict[str, Any], limit: float) -> Tuple[int, bytes]:
        end = time.monotonic() + limit
        connection.connect()
        sock = connection.sock
        assert sock is not None
        sock.settimeout(limit)
        connection.request("POST", asked["path"], json.dumps(asked["body"]).encode(), self.headers)
        response = connection.getresponse()
        raw = b""
        # A stream that drips has its limit as a whole.
        while len(raw) < MAX_BODY:
            sock.settimeout(max(0.01, end - time.monotonic()))
            part = response.read1(MAX_BODY - len(raw))
            if not part:
                break
            raw += part
            if time.monotonic() > end:
                raise socket.timeout
        return response.status, raw


def read_answer(status: int, raw: bytes) -> Dict[str, Any]:
    """One HTTP answer as the fields of an answer: text, reasoning, token ids, counts, how it ended, or the error.

    A stream of events is read as the answer that its parts make; one without its end is no answer.
    """
    try:
        body = _joined(raw) if raw.startswith(b"data:") else json.loads(raw)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        body = None
    if status != 200:
        return {"status": status, "error": f"HTTP {status}: {_message(body)}", "error_kind": "http"}
    if not isinstance(body, dict):
        return {"status": status, "error": "the answer is not a JSON object", "error_kind": "body"}
    if body.get("error") or body.get("object") == "error":
        return {"status": status, "error": _message(body), "error_kind": "body"}
    try:
        answer = _chat(body) if "choices" in body else _generate(body)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return {"status": status, "error": "the answer has no completion", "error_kind": "body"}
    answer["status"] = status
    return answer


def _joined(raw: bytes) -> Dict[str, Any]:
    """A chat's events as the one body that they would be without a stream, or the first error among them."""
    said: Dict[str, str] = {"content": "", "reasoning_content": ""}
    body: Dict[str, Any] = {"usage": {}}
    ended = None
    lines = [line[5:].strip() for line in raw.split(b"\n") if line.startswith(b"data:")]
    events: List[Dict[str, Any]] = [json.loads(line) for line in lines if line != b"[DONE]"]
    for event in events:
        if event.get("error") or event.get("object") == "error":
            return event
        for choice in event.get("choices") or ():
            ended = choice.get("finish_reason") or ended
            for name in said:
                said[name] += choice["delta"].get(name) or ""
        body.update({name: event[name] for name in ("usage", "sglext") if event.get(name)})
    if lines[-1] != b"[DONE]":
        return {"error": "the stream broke off"}
    body["choices"] = [{"message": said, "finish_reason": ended}]
    return body


def _message(body: Any) -> str:
    if not isinstance(body, dict):
        return "no message"
    inner = body.get("error")
    if isinstance(inner, dict):
        inner = inner.get("message")
    text = str(inner or body.get("message") or "no message")
    return " ".join(text.split())[:300]


def _chat(body: Dict[str, Any]) -> Dict[str, Any]:
    choice = body["choices"][0]
    message = choice["message"]
    spec = ((body.get("sglext") or {}).get("spec_tokens_details")) or {}
    return {
        "text": message.get("content") or "",
        "reasoning": message.get("reasoning_content") or "",
        "completion_tokens": (body.get("usage") or {}).get("completion_tokens") or 0,
        "finish_reason": choice.get("finish_reason"),
        "verify_calls": spec.get("spec_verify_ct"),
        "accept_length": spec.get("spec_accept_length"),
    }


def _generate(body: Dict[str, Any]) -> Dict[str, Any]:
    meta = body["meta_info"]
    ended = meta.get("finish_reason")
    kind = ended.get("type") if isinstance(ended, dict) else ended
    if kind == "abort":
        said = ended.get("message") if isinstance(ended, dict) else None
        return {"error": f"the engine aborted it: {said or 'no message'}", "error_kind": "aborted"}
    ids = body.get("output_ids") or []
    answer = {
        "text": body["text"],
        "token_ids": ids,
        "completion_tokens": meta.get("completion_tokens") or 0,
        "cached_tokens": meta.get("cached_tokens"),
        "weight_version": meta.get("weight_version"),
        "finish_reason": kind,
        "verify_calls": meta.get("spec_verify_ct"),
        "accept_length": meta.get("spec_accept_length"),
    }
    tops = meta.get("output_top_logprobs")
    if tops:
        answer.update(_margins(ids, tops))
    return answer


def _margins(ids: List[int], tops: List[List[List[Any]]]) -> Dict[str, Any]:
    """The gap between the two likeliest tokens of each position, in nats, and the one that was not taken."""
    gaps, runners_up = [], []
    for one, top in zip(ids, tops):
        first, second = sorted((float(entry[0]), int(entry[1])) for entry in top[:2])[::-1]
        gaps.append(round(first[0] - second[0], 2))
        runners_up.append(second[1] if first[1] == one else first[1])
    return {"gaps": gaps, "runners_up": runners_up}


def main() -> None:
    """One JSON request on standard input, one JSON answer on standard output."""
    json.dump(run(json.load(sys.stdin)), sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
