"""``ddtune --help`` answers at once: it imports no large library."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LARGE = ("textual", "asyncssh", "pydantic", "httpx", "cryptography", "prometheus_client")


def test_help_imports_no_large_library() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ddtune.cli.main", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "click" in imported
    assert not imported & set(LARGE)


def test_help_costs_at_most_five_bare_interpreters() -> None:
    """Pairs of runs, one behind the other, so that a busy machine slows both."""

    def seconds(*args: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *args], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    seconds("-m", "ddtune.cli.main", "--help")
    ratios = [seconds("-m", "ddtune.cli.main", "--help") / seconds("-c", "pass") for _ in range(9)]
    print(f"--help costs {statistics.median(ratios):.1f} bare interpreters")
    assert statistics.median(ratios) <= 5
