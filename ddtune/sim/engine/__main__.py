"""``python -m ddtune.sim.engine ARGS`` takes SGLang's own command line."""

from __future__ import annotations

from ddtune.sim.engine.process import main

if __name__ == "__main__":
    main()
