from __future__ import annotations

from pathlib import Path

import pytest

from ddtune.sim.layout import quoted
from ddtune.sim.unitfile import expand, format_span, read, span, specifiers, words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("'a b' \"c d\"e", ["a b", "c de"]),
        ('""', [""]),
        (r'"a\"b" \x41\n', ['a"b', "A\n"]),
        (r"'it\'s'", ["it's"]),
    ],
)
def test_words(text: str, wanted: list[str]) -> None:
    assert words(text) == wanted


@pytest.mark.parametrize("word", ["plain", "two words", 'a"b', "back\\slash", "50%", ""])
def test_a_quoted_word_reads_back(word: str) -> None:
    line = quoted(word) if word else '""'
    assert [specifiers(one, "x.service") for one in words(line)] == [word]


def test_specifiers_name_the_unit() -> None:
    assert specifiers("%n|%N|%p|%i|100%%|%Z", "a@b.service") == "a@b.service|a@b|a|b|100%|%Z"


def test_variables_fill_words_in() -> None:
    env = {"ONE": "1", "MANY": "a b"}
    assert expand(["x${ONE}y", "$MANY", "$$HOME", "${GONE}", "$GONE"], env) == ["x1y", "a", "b", "$HOME", ""]


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [
        ("5", 5, "5s"),
        ("200ms", 0.2, "200ms"),
        ("1min 30s", 90, "1min 30s"),
        ("0", 0, "0"),
        ("infinity", None, "infinity"),
    ],
)
def test_time_spans(text: str, seconds: float | None, shown: str) -> None:
    assert span(text) == seconds
    assert format_span(seconds) == shown


def test_a_bad_time_span_is_refused() -> None:
    for text in ("soon", "5 fortnights", ""):
        with pytest.raises((ValueError, KeyError)):
            span(text)


def test_drop_ins_apply_by_name_and_bad_lines_are_passed_over(tmp_path: Path) -> None:
    etc, run = tmp_path / "etc", tmp_path / "run"
    for folder in (etc / "a.service.d", run / "a.service.d"):
        folder.mkdir(parents=True)
    (etc / "a.service").write_text(
        "[Service]\nExecStart=/bin/a \\\n  --long\n# no\nRestartSec=soon\nOdd=1\nKillMode=mixed\n"
    )
    (run / "a.service.d/10.conf").write_text("[Service]\nExecStart=\nExecStart=/bin/run\n")
    (etc / "a.service.d/20.conf").write_text("[Service]\nExecStartPre=-+/bin/pre %n\n")
    (etc / "a.service.d/same.conf").write_text("[Service]\nUser=etc\n")
    (run / "a.service.d/same.conf").write_text("[Service]\nUser=run\n")
    config = read("a.service", [etc, run])
    assert config is not None
    assert [command.argv for command in config.start] == [("/bin/run",)]
    assert (config.start_pre[0].argv, config.start_pre[0].ignore) == (("/bin/pre", "a.service"), True)
    assert (config.user, config.kill_mode, config.restart_s) == ("etc", "mixed", 0.1)
    assert [path.name for path in config.drop_ins] == ["10.conf", "20.conf", "same.conf"]
    assert read("b.service", [etc, run]) is None
