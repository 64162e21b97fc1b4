"""Variables on an Exec line. The expected values were read from a process that a real systemd (252) started."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from ddtune.onhost import exec_lint
from ddtune.onhost.adopt_checks import filled_in
from ddtune.onhost.env_file import parse
from ddtune.profiles.diff import diff
from ddtune.profiles.model import Base, Profile
from ddtune.profiles.resolve import resolve
from tests.unit.test_profiles_resolve import DDTREE

FILE = r"""# a comment \
still comment?
A='--x {"a": true} --y b'
B=--x {"a": true}   
C="say \"hi\" \n $D \$E"
D=one\
two
E='a''b'c
F=--o '{"a": true}'
G=back\\slash \"q\"
 H = sp 
I="--o '{\"a\": true}' z"
J=
"""  # noqa: W291 - blanks at the end are what systemd takes off
VALUES = {
    "A": '--x {"a": true} --y b',
    "B": '--x {"a": true}',
    "C": 'say "hi" \\n $D $E',
    "D": "onetwo",
    "E": "abc",
    "F": "--o '{\"a\": true}'",
    "G": 'back\\slash "q"',
    "H": "sp",
    "I": "--o '{\"a\": true}' z",
    "J": "",
}
SEEN = [
    ("$A", ["--x", "{a:", "true}", "--y", "b"]),
    ("$C", ["say", "hi", "n", "$D", "$E"]),
    ("$F", ["--o", '{"a": true}']),
    ("$G", ["backslash", "q"]),
    ("$I", ["--o", '{"a": true}', "z"]),
    ("$J", []),
    ("${F}", ["--o '{\"a\": true}'"]),
    ("${J}", [""]),
    ("x=$F", ["x=$F"]),
    ("x=${D}", ["x=onetwo"]),
    ("$$D", ["$D"]),
    ("$NOPE", []),
    ("${NOPE}", [""]),
    ("pre$${D}", ["pre${D}"]),
]
JSON_ARGS = '--model-loader-extra-config {"enable_multithread_load": true} --served-model-name a'


def texts(command: str, **env: str) -> list[str]:
    return exec_lint.lint(command, env)


def test_k5_08_values_of_an_environment_file_are_those_of_the_process() -> None:
    """K5-08: quotes and backslashes are systemd's, and only where systemd gives them a meaning."""
    assert parse(FILE) == VALUES
    assert parse(FILE.rstrip("\n")) == VALUES
    assert parse("A=1\nA=2\nnonsense\n;x=1\n") == {"A": "2"}
    assert parse(f"SGL_ARGS='{JSON_ARGS}'\n") == {"SGL_ARGS": JSON_ARGS}


@pytest.mark.parametrize(("word", "got"), SEEN)
def test_k5_08_what_the_process_gets(word: str, got: list[str]) -> None:
    """K5-08: the arguments as systemd makes them of the value."""
    assert filled_in(word, VALUES) == " ".join(got)


def test_k5_08_json_that_loses_its_quotes_is_pointed_at() -> None:
    """K5-08: such a value reads well in its file and never arrives."""
    (text,) = texts("/usr/bin/python3 -m sglang.launch_server $SGL_ARGS", SGL_ARGS=JSON_ARGS)
    assert "$SGL_ARGS holds JSON that does not reach the engine whole" in text
    assert "{enable_multithread_load: · true}" in text
    mended = JSON_ARGS.replace('{"enable_multithread_load": true}', "'{\"enable_multithread_load\": true}'")
    assert texts("py $SGL_ARGS", SGL_ARGS=mended) == []
    assert '{"enable_multithread_load": true}' in filled_in("$SGL_ARGS", {"SGL_ARGS": mended})


@pytest.mark.parametrize(
    "value", ['{"enable_multithread_load": true}', '{"a":"\\\\ \\" \'"}', "{'x': 1}  ", "[1, 2]\t"]
)
def test_k5_08_a_switch_keeps_such_a_value_byte_for_byte(value: str) -> None:
    """K5-08: a base holds the argument as the process got it, and a release keeps it."""
    running = Base(("py", "--model-loader-extra-config", value, "--served-model-name", "a"), "/")
    release = resolve(running, Profile("p", {"budget": 16, "graphs": False}), DDTREE)
    assert release.argv[:5] == running.argv
    shown = subprocess.run(["printf", "%s", release.argv[2]], capture_output=True, text=True, check=True).stdout
    assert shown == value
    other = resolve(running, Profile("p", {}, ("--model-loader-extra-config", "{}")), DDTREE)
    (line,) = diff(resolve(running, Profile("p", {}), DDTREE), other)
    assert shlex.split(line) == ["--model-loader-extra-config:", value, "→", "{}"]


def test_k5_09_a_whole_variable_of_several_flags_is_one_argument() -> None:
    """K5-09: ``${ARGS}`` is one argument and ``$ARGS`` is split."""
    env = {"ARGS": "--tp-size 8 --port 30000"}
    (text,) = texts("/usr/bin/python3 -m sglang.launch_server ${ARGS} --x 1", **env)
    assert "gives ${ARGS} to the engine as one argument, though it holds several (--tp-size, --port)" in text
    assert "write $ARGS as a word of its own" in text
    assert texts("py $ARGS", **env) == []
    assert texts("py --model-path ${MODEL}", MODEL="/models/with blank") == []
    assert texts("py --port=${PORT}", PORT="30000") == []


def test_a_key_is_not_repeated() -> None:
    assert "sk-1" not in " ".join(texts("py ${A} $B", A="--api-key=sk-1 --x", B="{a: 1} --api-key sk-1"))


def test_k5_09_what_systemd_does_not_fill_in() -> None:
    """K5-09: inside a word ``$NAME`` stays as it is, and what is not set is gone."""
    assert "keeps $PORT as it stands" in texts("py --port=$PORT", PORT="1")[0]
    assert "$ARGS becomes no argument: ARGS is not set" in texts("py $ARGS")[0]
    assert "${ARGS} becomes an empty argument: ARGS is not set" in texts("py ${ARGS}")[0]
    assert texts("py $$HOME a$$B") == []
