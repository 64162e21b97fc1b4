"""``ddtune --help`` answers at once: it imports no large library."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
# What the console script does.
SCRIPT = "import sys; from ddtune.cli.main import main; sys.argv[0] = 'ddtune'; sys.exit(main())"
LARGE = ("textual", "asyncssh", "pydantic", "httpx", "cryptography", "prometheus_client")


def test_help_imports_no_large_library() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", SCRIPT, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "ddtune" in imported
    assert not imported & set(LARGE)


def test_help_costs_at_most_five_bare_interpreters() -> None:
    """The fastest of many runs of each, taken in turns: what else this machine does only ever adds."""

    def seconds(*args: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *args], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    runs = [(seconds("-c", SCRIPT, "--help"), seconds("-c", "pass")) for _ in range(30)]
    ratio = min(run[0] for run in runs) / min(run[1] for run in runs)
    print(f"--help costs {ratio:.1f} bare interpreters")
    assert ratio <= 5
