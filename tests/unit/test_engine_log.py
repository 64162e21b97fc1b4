from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddtune.engine.log import TEXT_LIMIT, body_of, number, parse, sanitise
from tests.unit.engine_samples import LOGS, log


@given(st.text(max_size=300))
def test_what_is_shown_has_nothing_hidden(raw: str) -> None:
    safe = sanitise(raw)
    assert sanitise(safe) == safe
    assert not [sign for sign in safe if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("\x1b[2J\x1b]0;x\x07[red]text[/red]", "[red]text[/red]"),
        ("a\x1b[31;1mred\x1b[0m", "ared"),
        ("\x9b2Jx\x9d0;t\x9cy", "xy"),
        ("left\u202eright\u2066\u200b", "leftright"),
        ("0%\r50%\r\n", "0% 50%"),
        ("\x00\x08\x7f\ud800ok", "ok"),
        ("Prüfung 好 █▌", "Prüfung 好 █▌"),
        ("\x1bP1;2|payload\x1b\\rest", "rest"),
    ],
)
def test_sanitises(raw: str, safe: str) -> None:
    assert sanitise(raw) == safe


def test_a_huge_line_is_cut_and_keeps_no_prompt() -> None:
    ids = ", ".join(["128000"] * 80_000)
    raw = f"self.cur_batch.batch_size()=109, reqs=[Req(rid=a, origin_input_text='secret', input_ids=[{ids}]"
    line = parse(raw)
    assert len(line.text) <= TEXT_LIMIT
    assert "128000" not in line.text
    assert "secret" not in line.text
    assert "batch_size()=109" in line.text


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("[2025-11-06 01:16:21 TP0] ", "TP0"),
        ("[2025-11-06 01:16:21 TP0 EP0] ", "TP0"),
        ("[2025-11-06 01:16:21 DP1 TP4 EP4] ", "DP1 TP4"),
        ("[2025-11-06 01:16:21 TP1 PP1] ", "TP1 PP1"),
        ("[2025-11-06 01:16:21] ", None),
        ("(SGLangEngine pid=952, ip=192.0.2.19) [2025-11-06 01:16:21 TP0] ", "TP0"),
        ("sglang_service-1  | [2025-11-06 01:16:21 TP7] ", "TP7"),
        ("", None),
    ],
)
def test_prefixes(prefix: str, rank: str | None) -> None:
    line = parse(prefix + "Scheduler hit an exception: Traceback (most recent call last):")
    assert line.rank == rank
    assert body_of(line).startswith("Scheduler hit an exception")
    assert line.severity == "error"


def test_torch_ranks() -> None:
    assert parse("[rank3]: RuntimeError: x").rank == "rank3"
    assert parse("[PG ID 2 PG GUID 3 Rank 3] watchdog: CUDA error: x").rank == "rank3"


def test_decode_lines() -> None:
    line = parse(
        "[2026-11-29 17:34:25 TP0] Decode batch, #running-req: 16, #token: 4662, token usage: 0.00, accept len: 4.68, "
        "accept rate: 0.25, cuda graph: True, gen throughput (token/s): 12975.40, #queue-req: 0"
    )
    assert line.kind == "decode"
    assert dict(line.fields)["cuda graph"] == "True"
    assert number(line, "accept len") == 4.68
    assert number(line, "gen throughput (token/s)") == 12975.40
    assert number(line, "cuda graph") is None
    assert number(line, "no such") is None


@pytest.mark.parametrize(
    "body",
    [
        "Decode batch. #running-req: 4, #token: 10, accept len: 1.00, #queue-req: 0, ",
        "Decode batch [12], #running-req: 4, #full token: 10, mamba usage: 0.1, accept len: 1.00, #queue-req: 0",
        "Decode batch, #running-req: 4, accept len: 1.00, cap len: 3, #queue-req: 0, est. decode TFLOPS/s: 5.0",
    ],
)
def test_decode_lines_of_other_versions(body: str) -> None:
    line = parse(f"[2026-11-29 17:34:25] {body}")
    assert (number(line, "#running-req"), number(line, "accept len"), number(line, "#queue-req")) == (4, 1.0, 0)


def test_kinds() -> None:
    prefill = parse("[2026-11-29 16:51:23] Prefill batch, #new-seq: 1, #new-token: 9, cuda graph: False")
    assert (prefill.kind, number(prefill, "#new-token")) == ("prefill", 9)
    assert parse("[2026-11-29 16:51:23] Load weight begin. avail mem=21.15 GB").kind == "startup"
    assert parse("torch.OutOfMemoryError: CUDA out of memory.").kind == "error"
    assert parse('  File "/opt/x.py", line 3, in y').kind == "traceback"
    assert parse("something", priority=2).severity == "error"
    assert parse("x.py:1: UserWarning: y").severity == "warning"


@pytest.mark.parametrize(
    "name", ["ngram16_g", "ngram16_nog", "nospec_g", "startup-0.5.17", "startup-0.5.23", "server-0.5.23"]
)
def test_a_good_run_has_no_error_lines(name: str) -> None:
    assert [line.text for line in log(name) if line.severity == "error"] == []


def test_every_batch_line_of_the_samples_is_taken_apart() -> None:
    batches = [line for name in LOGS for line in log(name) if " batch, #" in line.text]
    assert len(batches) > 100
    for line in batches:
        assert line.kind in ("decode", "prefill")
        assert number(line, "#running-req") is not None
        assert number(line, "#queue-req") is not None


@given(st.text(max_size=200))
def test_any_text_parses(raw: str) -> None:
    assert parse(raw).source == "unit"
