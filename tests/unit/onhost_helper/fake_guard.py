"""Stands in for systemd-run, ``fake_guard.py ROOT --unit=… … PYTHON -I PYZ guard UNIT OP``: a guard that only lives.

It ends once the transaction is settled, or the test that made ROOT has ended. A file ``ROOT/systemd/no-guard`` makes
it die at once.
"""

import json
import os
import sys
import time
from pathlib import Path

root, pyz, unit, op = Path(sys.argv[1]), sys.argv[-4], sys.argv[-2], sys.argv[-1]
if (root / "systemd/fail-guard").exists():
    sys.exit("fake: the guard could not be executed")
if (root / "systemd/no-guard").exists() or os.fork():
    sys.exit(0)
os.setsid()
null = os.open(os.devnull, os.O_RDWR)
for descriptor in range(3):
    os.dup2(null, descriptor)
sys.path.insert(0, pyz)
from ddtune.onhost.alive import claim  # noqa: E402 (found in the zipapp)
from ddtune.onhost.paths import Paths  # noqa: E402 (as above)

paths = Paths(str(root)).unit(unit)
held = claim(paths, op)


def tested() -> bool:
    return Path("/proc", (root / "systemd/tester").read_text()).exists()


while tested() and os.path.exists(paths.txn) and not json.loads(Path(paths.txn).read_bytes())["settled"]:
    time.sleep(0.05)
