"""What the embedded host does not give, as a test writes it into ``run/sim/withheld.json`` below its folder.

``{"lost": [5], "gpm": false, "metrics": false, "journal": false}``: GPUs off the bus, and what cannot be read.
``{"errors": {"3": {"ecc": 1, "nvlink": 12}}}``: what GPU 3 has counted.
"""

from __future__ import annotations

import json
from pathlib import Path


def withheld(folder: Path | None, name: str) -> bool:
    """Whether ``name`` may not be read; ``folder`` is the host's ``run/sim``."""
    if folder is None:
        return False
    try:
        said = json.loads((folder / "withheld.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get(name) is False
