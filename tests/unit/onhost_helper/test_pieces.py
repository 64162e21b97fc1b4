"""The parts of the helper that need no process."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

from ddtune.engine.fatal import FATAL_PATTERNS
from ddtune.engine.log import sanitise
from ddtune.onhost import adopt_checks, build_probe, drain, drop_in, evidence, inspect_process, redact, schema
from ddtune.onhost.api import ApiError, flag_value, read_admin_key, read_key
from ddtune.onhost.paths import Install, Paths

PY = "/opt/venv/bin/python3"
ENGINE = [PY, "-m", "sglang.launch_server"]


@pytest.mark.parametrize(
    ("argv", "length"),
    [
        ([*ENGINE, "--port", "1"], 3),
        ([PY, "-X", "dev", "-m", "sglang.launch_server", "--port", "1"], 5),
        ([PY, "/opt/venv/bin/sglang", "serve", "--model-path", "m"], 3),
        ([PY, "-m", "sglang.cli.main", "serve", "--port", "1"], 4),
        ([PY, "/opt/sglang/launch_server.py", "--port", "1"], 2),
        ([PY, "-m", "vllm.entrypoints.api_server"], None),
        ([PY, "-m", "http.server", "--directory", "sglang", "x"], None),
        (["/bin/sleep", "10"], None),
        ([PY], None),
    ],
)
def test_which_commands_are_the_engine(argv: list[str], length: int | None) -> None:
    assert build_probe.program_length(argv) == length


def test_flags_are_those_that_a_help_defines() -> None:
    text = """usage: launch_server [-h] [--model-path M]
  -h, --help            show this help message and exit
  --model-path MODEL_PATH, --model MODEL_PATH
                        The path; replaces --old-path.
  --tp-size TP_SIZE, --tp TP_SIZE  Ranks. See --dp.
  --speculative-algorithm {DDTREE,EAGLE}
  --enable-nccl-nvls    Use NVLS.
"""
    assert build_probe.flags_of(text) == [
        "--enable-nccl-nvls", "--help", "--model", "--model-path", "--speculative-algorithm", "--tp", "--tp-size",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "hidden"),
    [
        (["--api-key", "s"], ["--api-key", "@API_KEY@"]),
        (["--api-key=s", "x"], ["--api-key=@API_KEY@", "x"]),
        (["--admin-api-key", "s"], ["--admin-api-key", "@API_KEY@"]),
        (["--api-k", "s"], ["--api-k", "@API_KEY@"]),
        (["--admin=s"], ["--admin=@API_KEY@"]),
        (["--api-key"], ["--api-key"]),
        (["--api-key", "--port", "1"], ["--api-key", "@API_KEY@", "1"]),
        (["--api-keys", "s"], ["--api-keys", "s"]),
    ],
)
def test_keys_are_hidden_however_they_are_written(argv: list[str], hidden: list[str]) -> None:
    assert redact.redact_argv(argv) == hidden
    assert redact.expand_argv(hidden, argv) == argv


def test_keys_are_hidden_in_what_systemd_prints() -> None:
    show = '{ path=/p ; argv[]=/p --api-key sk-1 --port 1 --admin-api-key=sk-2 --api-key "sk 3" ; ignore_errors=no }'
    hidden = redact.redact_text(show)
    assert "sk" not in hidden
    assert "--port 1" in hidden


@pytest.mark.parametrize(
    "text",
    [
        "argv: ['python', '--api-key', 'sk-planted', '--port', '1']",
        '["--admin-api-key", "sk-planted", "--port", "1"]',
        r'{"command": "[\"--api-key\", \"sk-planted\"]"}',
        "launch_server --api-k sk-planted --port 1",
        "launch_server --ad=sk-planted --port 1",
        "ServerArgs(api_key='sk-planted with blanks', admin_api_key=sk-planted)",
        '{"api_key": "sk-planted", "admin_api_key":"sk-planted"}',
        "x-api-key: sk-planted",
        "OPENAI_API_KEY=sk-planted HF_TOKEN='sk-planted' exec",
        "environ({'HF_TOKEN': 'sk-planted'})",
        "authorization: bearer sk-planted",
    ],
)
def test_keys_are_hidden_however_they_are_printed(text: str) -> None:
    shown = redact.redact_text(text)
    assert "sk-planted" not in shown
    assert redact.redact_text(shown) == shown
    assert "sk-planted" not in sanitise(text)


@pytest.mark.parametrize(
    "text",
    [
        "Receive: obj=ChatCompletionRequest(messages=[{'role': 'user', 'content': 'planted words'}], model='m')",
        '{"rid": "1", "obj": {"text": "planted words", "sampling_params": {}}}',
        r'"{\"messages\": [{\"content\": \"planted words\"}]}"',
        "GenerateReqInput(rid='1', text='it's planted words')",
        "out={'reasoning_content': None, 'content': \"planted words\"}",
        "Req(rid=1, origin_input_text='planted words', origin_input_ids=[70714, 70714])",
        '{"input_ids": [[70714, 1], [2, 70714]]}',
        "prompt_token_ids=[70714]",
        "image_data=['data:image/png;base64,planted words']",
    ],
)
def test_words_of_users_are_taken_out(text: str) -> None:
    shown = redact.without_words(text)
    assert "planted" not in shown
    assert "70714" not in shown
    assert redact.without_words(shown) == shown
    assert "planted" not in sanitise(text)


@pytest.mark.parametrize(
    "text",
    [
        "Decode batch, #running-req: 16, #token: 4662, token usage: 0.00, gen throughput (token/s): 12975.40",
        "max_total_num_tokens=1024, context_length=4096, eos_token_ids={1}, api_key=None, text_only=True",
        "the server needs --api-key --port 1",
        "'chat_template_content_format': 'auto', tokenizer_path='m'",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert sanitise(text) == text


@pytest.mark.parametrize("part", ["--api-key", "api_key=", "A_", "bearer ", "text", "a_", "1,", "[", "ids=[", "\\"])
def test_a_long_line_takes_no_longer_than_its_length(part: str) -> None:
    def spent(count: int) -> float:
        line, began = part * count, time.process_time()
        redact.redact_text(redact.without_words(line))
        return time.process_time() - began

    # Quadratic would be hundreds of times as long, and minutes.
    assert spent(200_000) < 200 * max(spent(10_000), 0.01)


def test_values_of_secret_names_are_hidden() -> None:
    env = {"HF_TOKEN": "x", "OPENAI_API_KEY": "x", "AWS_SECRET": "", "SGLANG_MAX_TOKENS": "7", "NO_TOKEN": None}
    assert redact.redact_env(env) == {
        "HF_TOKEN": "@HIDDEN@", "OPENAI_API_KEY": "@HIDDEN@", "AWS_SECRET": "", "SGLANG_MAX_TOKENS": "7",
        "NO_TOKEN": None,
    }  # fmt: skip


def test_a_journal_over_its_room_keeps_both_ends_in_order() -> None:
    a, b, c, d = "a" * 40, "b" * 90, "c" * 5, "d" * 5
    assert evidence.both_ends([a, b, c, d], 240) == ([a, b, c, d], 0)
    assert evidence.both_ends([a, b, c, b, d], 240) == ([a, "… 1 lines were left out here …", c, b, d], 1)


@pytest.mark.parametrize("content", [b"", b"two words", b"a\nb\n", b"k" * 600, b"k\xff", None])
def test_a_file_that_holds_no_key_is_not_one(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ApiError, match=f"the API key file {file}") as refused:
        read_key(str(file), ["--api-key", "other"])
    assert refused.value.kind == "bad_key"


def test_the_key_of_a_file_goes_before_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-file\n")
    argv = ["--api-key", "sk-argv"]
    assert read_key(str(tmp_path / "key"), argv) == "sk-file"
    assert read_key(None, argv) == "sk-argv"
    assert read_key(None, []) is None
    assert read_admin_key(None, argv) == "sk-argv"
    assert read_admin_key(None, [*argv, "--admin-api-key=sk-admin"]) == "sk-admin"
    assert flag_value(["--port", "1", "--port=2"], "--port") == "2"


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("#!/bin/sh\nexit 3\n", 0o755, "ended with status 3"),
        ("#!/bin/sh\nexec sleep 60\n", 0o755, "did not end within 0.2 s"),
        ("#!/bin/sh\n", 0o777, "nobody else can write"),
        ("#!/bin/sh\n", 0o644, "could not be started"),
    ],
)
def test_a_hook_that_fails_is_said(tmp_path: Path, text: str, mode: int, words: str) -> None:
    paths = Paths(str(tmp_path)).unit("a.service")
    hook = Path(paths.drain_hook)
    assert drain.run_hook(paths, 1) is False
    hook.parent.mkdir(parents=True)
    hook.write_text(text)
    hook.chmod(mode)
    with pytest.raises(drain.HookError, match=words):
        drain.run_hook(paths, 0.2)


@pytest.mark.parametrize("word", ["/a b/python", "100%h", "$HOME", "${X}", 'a"b', "a\\b", "a;b", "'x'", "#c", ""])
def test_a_word_of_a_command_is_literal_in_a_unit_file(word: str) -> None:
    quoted = drop_in.quote(word)
    # systemd's own order: unquote and unescape, then specifiers, then variables.
    assert shlex.split(quoted)[0].replace("%%", "%").replace("$$", "$") == word
    assert quoted.count("%") % 2 == 0
    assert quoted.count("$") % 2 == 0


def test_the_drop_in_names_a_unit_of_a_template() -> None:
    text = drop_in.render(Install(), "sglang@gpu-0.service", 90)
    assert "OnFailure=ddtune-ended@sglang@gpu-0.service.service\n" in text
    assert "ExecStart=\nExecStart=/usr/bin/python3 -I /usr/local/lib/ddtune/1/ddtune-onhost.pyz become" in text
    assert "ExecStartPre=-+/usr/bin/python3 -I " in text
    assert "TimeoutStopSec=90\n" in text


def show(command: str) -> str:
    return (
        f"{{ path={command.split()[0]} ; argv[]={command} ; ignore_errors=no ; start_time=[n/a] ; pid=0 ; status=0/0 }}"
    )


@pytest.mark.parametrize(
    ("command", "argv", "same"),
    [
        (f"{PY} -m sglang.launch_server --port 1", [*ENGINE, "--port", "1"], True),
        (f"{PY} -m sglang.launch_server --port 2", [*ENGINE, "--port", "1"], False),
        (f"{PY} -m sglang.launch_server --port ${{PORT}} $MORE", [*ENGINE, "--port", "1", "--a", "b"], True),
        (f"{PY} -m sglang.launch_server $NOTHING --port 1", [*ENGINE, "--port", "1"], True),
        (f"{PY} -m sglang.launch_server --x $$5", [*ENGINE, "--x", "$5"], True),
        (f"{PY} -m sglang.launch_server --x a b", [*ENGINE, "--x", "a b"], True),
        ("/no/script serve --port 1", [PY, "/no/script", "serve", "--port", "1"], False),
    ],
)
def test_the_command_on_disk_and_the_running_one_are_compared(command: str, argv: list[str], same: bool) -> None:
    assert adopt_checks.same_command(show(command), argv, {"PORT": "1", "MORE": " --a  b "}) is same


def test_a_script_is_compared_without_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "sglang"
    script.write_text(f"#!{PY}\n")
    assert adopt_checks.same_command(show(f"{script} serve"), [PY, str(script), "serve"], {})
    assert adopt_checks.same_command(show(f"{script} serve"), [PY, "-u", str(script), "serve"], {})
    assert adopt_checks.same_command(show(f"{script} serve --port 2"), [PY, str(script), "serve"], {}) is False


@pytest.mark.parametrize(
    "command", ["/opt/run-sglang 8", "/bin/bash /opt/run.sh", f"/usr/bin/numactl --interleave=all {' '.join(ENGINE)}"]
)
def test_of_a_wrapper_the_text_does_not_tell(command: str) -> None:
    assert adopt_checks.same_command(show(command), ENGINE, {}) is None


def test_a_variable_is_split_as_systemd_splits_it() -> None:
    """K5-08: quotes in a value are systemd's, and what the process got is what counts."""
    args = '--model-loader-extra-config {"enable_multithread_load": true} --served-model-name a'
    got = ["--model-loader-extra-config", "{enable_multithread_load:", "true}", "--served-model-name", "a"]
    assert adopt_checks.same_command(show(f"{' '.join(ENGINE)} $SGL_ARGS"), [*ENGINE, *got], {"SGL_ARGS": args})


def test_a_difference_is_shown_without_keys() -> None:
    found = adopt_checks.both(show(f"{PY} -m x --api-key sk-1"), [PY, "-m", "x", "--api-key", "sk-2"])
    assert found == (f"{PY} -m x --api-key @API_KEY@", f"{PY} -m x --api-key @API_KEY@")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("", None),
        ("--host 0.0.0.0 --nnodes 1 --disaggregation-mode null", None),
        ("--host=127.0.0.1", None),
        ("--host=127.0.0.2", "listens on 127.0.0.2 only"),
        ("--host 10.0.0.5", "listens on 10.0.0.5 only"),
        ("--nnodes=2 --node-rank 1", "one of 2 nodes"),
        ("--disaggregation-mode prefill", "the prefill half"),
        ("--ssl-certfile /c.pem", "speaks TLS"),
        ("--is-embedding", "generates nothing"),
    ],
)
def test_an_engine_that_cannot_be_asked_alone_is_not_taken(flags: str, why: str | None) -> None:
    found = adopt_checks.not_asked([*ENGINE, *flags.split()])
    assert found is None if why is None else why in (found or "")


def test_the_program_is_found_as_the_process_found_it(tmp_path: Path) -> None:
    program = tmp_path / "python3"
    program.touch(0o755)
    assert adopt_checks.absolute(["python3", "-m"], {"PATH": f"/no:{tmp_path}"}, "/") == [str(program), "-m"]
    assert adopt_checks.absolute(["/a/python3"], {}, "/x") == ["/a/python3"]
    assert adopt_checks.absolute(["venv/bin/python3"], {}, "/x") == ["/x/venv/bin/python3"]


def test_a_list_of_strings_ended_by_nul_keeps_empty_ones() -> None:
    assert inspect_process.split_nul(b"a\0\0b\0\0") == ["a", "", "b", ""]
    assert inspect_process.split_nul(b"sglang::scheduler_TP0") == ["sglang::scheduler_TP0"]
    assert inspect_process.split_nul(b"") == []


def test_the_environment_of_a_release_holds_or_not() -> None:
    env = {"A": "1", "B": "2"}
    assert inspect_process.env_holds(env, {"A": "1"}, ["C"])
    assert not inspect_process.env_holds(env, {"A": "2"}, [])
    assert not inspect_process.env_holds(env, {}, ["B"])
    assert inspect_process.env_holds(env, {"B": "2"}, ["B"])


@pytest.mark.parametrize("slow", ["(a+)+$", "(?:a|bc)*x", "(?:(?:a{1,3}b)c)*", "(a*)*", "^(?P<n>\\w+\\s?)*$"])
def test_an_expression_that_repeats_a_repeat_is_refused(slow: str) -> None:
    with pytest.raises(schema.BadRequestError, match="several ways"):
        schema.regex(slow)


def test_the_engines_own_expressions_are_taken() -> None:
    for _, expression in FATAL_PATTERNS:
        assert schema.regex(expression) == expression
    assert schema.regex(r"(?:[a-c]\d{4})+ (?:boom|bang){2} .*") != ""
