"""The zipapp and the loader's payload: the same bytes everywhere, and nothing written on the host."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ddtune.host import bundle

PRINT_HASH = "from ddtune.host import bundle; print(bundle.pyz_sha256())"


def test_two_builds_are_equal_whatever_the_folder_and_the_times(tmp_path: Path) -> None:
    here = Path(bundle.__file__).parent.parent
    copy = tmp_path / "elsewhere/ddtune"
    for folder in ("onhost", "inengine", "host"):
        (copy / folder).mkdir(parents=True)
        for file in (here / folder).glob("*.py"):
            (copy / folder / file.name).write_bytes(file.read_bytes())
            os.utime(copy / folder / file.name, (1, 1))
    (copy / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", PRINT_HASH],
        cwd=copy.parent,
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == bundle.pyz_sha256()


def test_the_zipapp_holds_the_on_host_programs_and_nothing_else() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle.pyz())) as archive:
        names = archive.namelist()
    assert names == sorted(names)
    assert {"__main__.py", "ddtune/__init__.py", "ddtune/onhost/__init__.py", "ddtune/onhost/helper.py"} <= set(names)
    assert all(name == "__main__.py" or name.startswith("ddtune/") for name in names)
    assert all(name.count("/") < 2 or name.startswith(("ddtune/onhost/", "ddtune/inengine/")) for name in names)


def run(payload: bytes, *args: str, rest: bytes = b"", folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        bundle.loader_argv(sys.executable, *args), input=payload + rest, capture_output=True, cwd=folder, timeout=30
    )


PROBE = """
import os, sys
from ddtune.onhost import redact

def main(args):
    print(args, redact.redact_argv(["--api-key", "k"]), os.read(0, 100))
    return 5
"""


def test_the_loader_reads_exactly_its_payload_and_leaves_the_rest(tmp_path: Path) -> None:
    payload = bundle.loader_payload("probe", {"probe": PROBE})
    done = run(payload, "a b", "c", rest=b"\n\nheartbeat\n", folder=tmp_path)
    assert done.stderr == b""
    assert done.stdout.decode() == "['a b', 'c'] ['--api-key', '@API_KEY@'] b'\\n\\nheartbeat\\n'\n"
    assert done.returncode == 5
    assert list(tmp_path.iterdir()) == []


def test_the_loader_waits_for_a_payload_that_comes_in_pieces(tmp_path: Path) -> None:
    payload = bundle.loader_payload("probe", {"probe": PROBE}) + b"x"
    process = subprocess.Popen(
        bundle.loader_argv(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, bufsize=0
    )
    assert process.stdin is not None
    for start in range(0, len(payload), 4093):
        process.stdin.write(payload[start : start + 4093])
    out, _ = process.communicate(timeout=30)
    assert out.endswith(b"b'x'\n")


def test_the_loader_runs_the_programs_without_an_installation(tmp_path: Path) -> None:
    done = run(bundle.loader_payload("ddtune.onhost.main"), "version", folder=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == (b"1\n", b"", 0)


def test_an_unknown_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="no on-host module"):
        bundle.loader_payload("ddtune.onhost.nothing")
