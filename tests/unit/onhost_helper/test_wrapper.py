"""What a wrapper adds to a service, and what systemd gave it before."""

from __future__ import annotations

import pytest

from ddtune.onhost import env_file, wrapper
from ddtune.onhost.scrub import LEFT_OUT, Scrubber, secrets_of


def test_only_what_the_wrapper_did_is_carried() -> None:
    given = {"PATH": "/bin", "LANG": "C", "A": "1", "HOME": "/home/x"}
    env = {"PATH": "/venv/bin:/bin", "A": "1", "B": "2 3", "HOME": "/home/x", "PWD": "/", "SHLVL": "0", "_": "/bin/x"}
    env["INVOCATION_ID"] = "i"
    assert wrapper.carried(env, given) == ({"PATH": "/venv/bin:/bin", "B": "2 3"}, ["LANG"])


def test_all_environment_files_are_seen() -> None:
    one, other = "EnvironmentFiles=/etc/a b.env (ignore_errors=no)", "EnvironmentFiles=/etc/c (ignore_errors=yes)"
    assert wrapper.files(f"Environment=A=1\n{one}\n{other}\n") == [("/etc/a b.env", False), ("/etc/c", True)]


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("A=plain value # kept\n", {"A": "plain value # kept"}),
        ("# c\n; c\n\nA=1\nA=2\n", {"A": "2"}),
        ("A='{\"k\": true}'\n", {"A": '{"k": true}'}),
        ('A="{\\"k\\": true} \\$x"\n', {"A": '{"k": true} $x'}),
        ("A=one \\\n two\n", {"A": "one  two"}),
        ("not a line\nB=1", {"B": "1"}),
    ],
)
def test_a_file_is_read_as_systemd_reads_it(text: str, env: dict[str, str]) -> None:
    assert env_file.parse(text) == env


def test_what_systemd_lists_is_read_back() -> None:
    """As systemd 252 prints it."""
    listed = r'"A=a b" "Q=he said \"hi\" \$x \`y\` \\ z" JSON={a:1} "NL=a\nb"'
    assert env_file.shown(listed) == {"A": "a b", "Q": 'he said "hi" $x `y` \\ z', "JSON": "{a:1}", "NL": "a\nb"}


def test_neither_keys_nor_requests_leave_the_host() -> None:
    secrets = secrets_of([["x", "--api-key", "sk-123456"]], [{"HF_TOKEN": "hf-abcdef", "PATH": "/bin"}], "ab")
    scrub = Scrubber(secrets)
    assert scrub.text("Receive: obj=GenerateReqInput(text='hello')") == f"Receive: obj={LEFT_OUT}"
    assert scrub.text("key sk-123456 and hf-abcdef") == "key @HIDDEN@ and @HIDDEN@"
    assert scrub.text("Authorization: Bearer t0ken") == "Authorization: Bearer @HIDDEN@"
    assert scrub.all({"a": ["sk-123456", 1]}) == {"a": ["@HIDDEN@", 1]}
    assert (scrub.keys, scrub.requests, scrub.too_short) == (4, 1, 1)
