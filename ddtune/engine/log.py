"""The engine's log lines: made safe to show, and taken apart."""

from __future__ import annotations

import math
import re
import unicodedata

from ddtune.engine.fatal import fatal_cause
from ddtune.engine.model import LogLine
from ddtune.onhost.redact import redact_text, without_words

TEXT_LIMIT = 4000
"""Longest text kept of a line, in characters; an engine prints lines of hundreds of kilobytes when it hangs."""

_SEQUENCES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"
)
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def hidden(text: str) -> str:
    """``text`` without the prompts that the engine prints when it hangs, which are users' data, and without keys."""
    return redact_text(without_words(text))


def sanitise(text: str, limit: int = TEXT_LIMIT) -> str:
    """``text`` on one line without escape sequences and control, direction and invisible characters.

    At most ``limit`` characters stay, and neither prompts nor keys.
    """
    # Removing sequences only shortens, so a generous cut first keeps a huge line cheap.
    text = _printable(hidden(_SEQUENCES.sub("", text[: limit * 4]))).rstrip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def inert(text: str) -> str:
    """``text`` on one line and whole, without what a terminal would act on."""
    return _printable(_SEQUENCES.sub("", text))


def _printable(text: str) -> str:
    return text if text.isascii() and text.isprintable() else "".join(_shown(sign) for sign in text)


def _shown(sign: str) -> str:
    if sign in "\t\r\n\v\f":
        return " "
    return "" if unicodedata.category(sign) in _HIDDEN else sign


# What Ray, compose, docker, Kubernetes and syslog put before a line.
_OUTER = re.compile(
    r"(?:\((?:[\w.:-]+ )?pid=\d+[^()]{0,80}\) ?|[\w.-]{1,60}[-_]\d+ +\| ?|\[pod/[\w./-]{1,120}\] ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} [\w.@-]{1,64}(?:\[\d+\])?: )+"
)
_PREFIX = re.compile(
    r"^(?:\([^()]{1,80}\)\s+|[\w.-]{1,60}\s+\|\s+)?"  # looser, since the engine's own stamp follows
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?P<tags>(?: [A-Z]{2,4}\d+)*)\]\s?"
)
_TORCH_RANK = re.compile(r"^\[rank(\d+)\]:|^\[PG ID \S+ PG GUID \S+ Rank (\d+)\]")
_BATCH = re.compile(r"^(Decode|Prefill) batch\b[^,.]*[,.] ?")

_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b(?::|$)")
_FRAME = re.compile(r'^Traceback \(most recent call last\)|^\s+File "|^\s+[\^~]+\s*$|^--- Logging error ---')
_ERROR = re.compile(
    r"\bERROR\b|exception: Traceback|: error: |\b(?:CUDA|NCCL|cuBLAS) error\b|\bOutOfMemoryError\b|SIGQUIT|\bsigquit\b"
    r"|crashed with exit code|died during initialization|^Capture cuda graph failed|^Health check failed"
    r"|^Fatal Python error|[Ww]atchdog timeout|^terminate called|^Initialization failed"
    r"|NVRM: Xid|NVRM:.*fallen off the bus"
)
# journald's own word for lines that it did not keep.
_SUPPRESSED = re.compile(r"^Suppressed \d+ messages from ")
_WARNING = re.compile(r"\b(?:WARNING|NCCL WARN)\b|\b\w*Warning: |^\[rank\d+\]:\[W|^\[W\d+ |\bis deprecated\b")
_STARTUP = re.compile(
    r"^(?:server_args=|Init (?:torch distributed|parallel)|Load weight|Multi-thread loading|Loading \S+ checkpoint"
    r"|KV Cache is allocated|Memory (?:pool end|baseline)|Capture .*(?:cuda|CUDA) graph (?:begin|end)|Capturing "
    r"|Entering DeepGEMM|DeepGEMM|Engine startup timings|max_total_num_tokens=|Tree cache initialized"
    r"|The server is fired up|INFO:\s+(?:Started server|Waiting for application|Application startup|Uvicorn running))"
)


def parse(
    text: str,
    at: float = 0.0,
    source: str = "unit",
    cursor: str | None = None,
    priority: int | None = None,
    pid: int | None = None,
) -> LogLine:
    """One journal entry as a LogLine. ``priority`` is syslog's, 0 to 7; the engine's own lines all come as 6."""
    safe = sanitise(text)
    prefix, body = _split(safe)
    kind, severity = _kind(body)
    if priority is not None and priority <= 3:
        severity = "error"
    elif priority == 4 and severity == "info":
        severity = "warning"
    fields = _fields(body) if kind in ("decode", "prefill") else ()
    fatal = fatal_cause(safe) if source == "unit" and not fields else None
    return LogLine(at, safe, source, _rank(prefix, body), kind, fields, cursor, severity, pid, fatal)


def body_of(line: LogLine) -> str:
    """The text behind the engine's own time and rank, and behind what a container's runtime puts before them."""
    return _split(line.text)[1]


def _split(text: str) -> tuple[re.Match[str] | None, str]:
    outer = _OUTER.match(text)
    inner = text[outer.end() :] if outer else text
    prefix = _PREFIX.match(inner)
    return prefix, inner[prefix.end() :] if prefix else inner


def number(line: LogLine, name: str) -> float | None:
    """The number that a decode or prefill line gives for ``name`` (such as ``accept len``), or None."""
    for key, value in line.fields:
        if key == name:
            try:
                found = float(value)
            except ValueError:
                return None
            return found if math.isfinite(found) else None
    return None


def _rank(prefix: re.Match[str] | None, body: str) -> str | None:
    tags = prefix["tags"].split() if prefix else []
    shown = [tag for tag in tags if tag.startswith(("DP", "TP", "PP"))]
    if shown:
        return " ".join(shown)
    torch = _TORCH_RANK.match(body)
    return f"rank{torch[1] or torch[2]}" if torch else None


def _kind(body: str) -> tuple[str, str]:
    batch = _BATCH.match(body)
    if batch:
        return batch[1].lower(), "info"
    if _SUPPRESSED.match(body):
        return "gap", "warning"
    if _FRAME.match(body):
        return "traceback", "error"
    if _EXCEPTION.match(body) or _ERROR.search(body):
        return "error", "error"
    severity = "warning" if _WARNING.search(body) else "info"
    return ("startup" if _STARTUP.match(body) else "other"), severity


def _fields(body: str) -> tuple[tuple[str, str], ...]:
    batch = _BATCH.match(body)
    pairs = (part.partition(": ") for part in body[batch.end() if batch else 0 :].rstrip(", ").split(", "))
    return tuple((key.strip(), value.strip()) for key, colon, value in pairs if colon)
