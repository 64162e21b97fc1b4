"""The helper against whoever may call it: random requests, hand-made hostile ones, and a viewer who wants to write."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddtune.onhost import helper, programs, trusted
from ddtune.onhost.context import RefusalError
from ddtune.onhost.paths import Install, Paths
from tests.unit.onhost_helper.host import OWNER, UNIT, Host

HOSTILE = (
    "../../etc/shadow",
    "/etc/shadow",
    "a\nb",
    "a\rb",
    "%h %n %%",
    "$(id)",
    "${IFS}id",
    "`id`",
    "; reboot",
    "--no-pager",
    "-oProxyCommand=id",
    "a\0b",
    "\x1b]52;c;aGk=\x07",
    "\u202e",
    "\ud800",
    "x" * 100_000,
    "",
    " ",
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
FIELDS = (
    *("op", "sha", "release", "meta", "owner", "kind", "candidate", "lease_s", "confirm_deadline_s", "argv", "env_set"),
    *(
        "api_key_file",
        "api_port",
        "canary",
        "fatal_patterns",
        "evidence",
        "profile",
        "entry",
        "requests",
        "key",
        "keep",
    ),
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with nothing in it, where nothing may appear."""
    root = tmp_path_factory.mktemp("bare")
    (root / "etc").mkdir()
    return root


@pytest.fixture
def inside(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install = Install(root=str(bare), systemctl="/bin/false", systemd_run="/bin/false", journalctl="/bin/false")
    monkeypatch.setattr(helper, "load_install", lambda: install)
    monkeypatch.setattr("sys.argv", ["ddtune-host"])
    return bare


def _whole(answer: dict[str, Any]) -> None:
    """An answer is one of the two shapes, and no bug of ours."""
    assert answer["ok"] is True or {"cause", "message", "detail"} <= set(answer), answer
    assert "bug" not in str(answer.get("message")), answer
    json.dumps(answer)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_answered(inside: Path, raw: bytes) -> None:
    _whole(helper.answer(raw))
    assert [path.name for path in inside.rglob("*")] == ["etc"]


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    verb=st.one_of(st.sampled_from(sorted(helper.VERBS)), TEXTS),
    unit=st.one_of(st.just(UNIT), VALUES),
    proto=st.one_of(st.just(1), VALUES),
    fields=st.dictionaries(st.one_of(st.sampled_from(FIELDS), TEXTS), VALUES, max_size=6),
)
def test_any_request_is_answered_and_writes_nothing(
    inside: Path, verb: Any, unit: Any, proto: Any, fields: dict[str, Any]
) -> None:
    request = {**fields, "proto": proto, "verb": verb, "unit": unit}
    for allowed in (helper.VERBS, helper.READING):
        _whole(helper.answer(json.dumps(request).encode("utf-8", "surrogatepass"), allowed))
    assert [path.name for path in inside.rglob("*")] == ["etc"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_no_unit_name_leaves_its_folder(inside: Path, unit: str) -> None:
    for name in (unit, f"{unit}.service"):
        for verb in sorted(set(helper.VERBS) - {"hello"}):
            answer = helper.answer(json.dumps({"proto": 1, "verb": verb, "unit": name}).encode())
            assert answer["ok"] is False


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"proto": 1, "verb": "state", "unit": ' + b"[" * 30 + b"]" * 30 + b"}",
        b'{"proto": 1e999, "verb": "hello"}',
        b'{"proto": NaN, "verb": "hello"}',
        b'{"proto": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe{",
        b'{"proto": 1, "verb": "hello"} trailing',
        b'{"proto": 1, "proto": 1, "verb": "\\u0000"}',
    ],
)
def test_hand_made_payloads(inside: Path, raw: bytes) -> None:
    answer = helper.answer(raw)
    assert answer["ok"] is False
    _whole(answer)


def test_a_hundred_megabytes_are_not_read(host: Host) -> None:
    host.install()
    process = subprocess.Popen(
        [host.root / "usr/local/libexec/ddtune-host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    sent = 0
    with contextlib.suppress(BrokenPipeError):
        while sent < 100 * 1024 * 1024:
            sent += process.stdin.write(b" " * 65536)
    assert sent < 32 * 1024 * 1024
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    assert "more than" in answer["message"]
    process.wait(10)


def test_links_in_the_place_of_what_is_kept_are_not_followed_out(host: Host) -> None:
    host.adopted()
    secret = host.root / "secret.json"
    secret.write_text('{"argv": ["sk-not-yours"], "cwd": "/", "env_set": {}, "env_unset": [], "schema": 1}')
    sha = "a" * 64
    host.state_file("releases", sha).symlink_to(host.root)
    (host.root / "release.json").symlink_to(secret)
    answer = host.call("release", sha=sha)
    assert answer["ok"] is False, "a release is named by the hash of what it holds"
    assert "sk-not-yours" not in json.dumps(answer)


def test_a_viewer_looks_and_changes_nothing(host: Host) -> None:
    sha = host.adopted()
    assert host.viewed("state")["stable"]["release"] == sha
    assert host.viewed("inspect")["pid"] == host.pid()
    before = {path: path.read_bytes() for path in host.root.rglob("var/lib/ddtune/**/*") if path.is_file()}
    for verb in sorted(set(helper.VERBS) - helper.READING):
        answer = host.viewed(verb, op="0001-x", owner=OWNER)
        assert (answer["ok"], answer["cause"]) == (False, "read_only"), verb
        assert "only look" in answer["message"]
    assert host.viewed("probe_build", keep=True)["cause"] == "read_only"
    after = {path: path.read_bytes() for path in host.root.rglob("var/lib/ddtune/**/*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("break_", "says"),
    [
        (
            lambda root: (root / "usr/local/lib/ddtune/1/ddtune-onhost.pyz").chmod(0o666),
            "ddtune-onhost.pyz can be written",
        ),
        (lambda root: (root / "usr/local/lib/ddtune/1").chmod(0o777), "ddtune/1 can be written"),
        (lambda root: (root / "usr/local/libexec/ddtune-host-ro").unlink(), "ddtune-host-ro is missing"),
        (lambda root: (root / "etc/sudoers.d/ddtune").chmod(0o666), "sudoers.d/ddtune can be written"),
        (lambda root: (root / "var/lib/ddtune").chmod(0o777), "var/lib/ddtune can be written"),
        (
            lambda root: _add(root / "etc/sudoers.d/ddtune", "ops ALL=(root) NOPASSWD: ALL\n"),
            "allows more than the helper",
        ),
        (
            lambda root: _add(
                root / "etc/sudoers.d/ddtune", f"ops ALL=(root) NOPASSWD: {root}/usr/local/libexec/ddtune-host\n"
            ),
            "allows more than the helper",
        ),
        *(
            (lambda root, line=line: _add(root / "etc/sudoers.d/ddtune", f"{line}\n"), "allows more than the helper")
            for line in (
                "#1000 ALL=(ALL) NOPASSWD: ALL",
                "#-2 ALL=(ALL) NOPASSWD: ALL",
                "#includedir /home/eve/rules",
                "#include /home/eve/rules",
                "@include /home/eve/rules",
                " eve ALL=(ALL) NOPASSWD: ALL",
            )
        ),
        (
            lambda root: _add(root / "etc/sudoers.d/ddtune", b"# \xff\nops ALL=(root) NOPASSWD: ALL\n"),
            "allows more than the helper",
        ),
    ],
)
def test_each_hello_says_what_others_could_change(host: Host, break_: Any, says: str) -> None:
    host.install()
    _add(
        host.root / "etc/sudoers.d/ddtune",
        f'# mine\nops ALL=(root) NOPASSWD: {host.root}/usr/local/libexec/ddtune-host ""\n',
    )
    (host.root / "etc/sudoers.d/ddtune").chmod(0o440)
    assert host.ok("hello")["problems"] == []
    break_(host.root)
    assert any(says in problem for problem in host.ok("hello")["problems"])


def _add(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        path.chmod(0o640)
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    path.chmod(0o440)


def test_another_owner_is_named(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = tmp_path / "x"
    path.touch()
    os.chown(path, 12345, -1)
    assert "belongs to user 12345" in trusted.weak(str(path))[0]


def test_the_sudoers_file_has_a_line_for_each(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    text = programs._sudoers(paths, {"ops": paths.helper, "eve": paths.viewer}).decode()
    assert f'ops ALL=(root) NOPASSWD: {paths.helper} ""' in text.splitlines()
    assert f'eve ALL=(root) NOPASSWD: {paths.viewer} ""' in text.splitlines()
    (tmp_path / "etc/sudoers.d").mkdir(parents=True)
    Path(paths.sudoers).write_text("root ALL=(ALL) ALL\n")
    with pytest.raises(RefusalError):
        programs._sudoers(paths, {"ops": paths.helper})
