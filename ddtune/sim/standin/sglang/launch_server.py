"""``python -m sglang.launch_server ARGS``."""

from __future__ import annotations

import sys
from pathlib import Path

# The interpreter of the service need not have ddtune installed: this file lies inside it.
sys.path.append(str(Path(__file__).resolve().parents[4]))

from ddtune.sim.engine.process import main

if __name__ == "__main__":
    main()
