"""Names that a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """Up to ``limit`` of ``names`` that look like ``name``, best first; empty when none does."""
    known = {candidate.lower(): candidate for candidate in names}
    wanted = name.lower()
    close = difflib.get_close_matches(wanted, known, n=limit, cutoff=0.5)
    starts = [key for key in sorted(known) if wanted and (key.startswith(wanted) or wanted.startswith(key))]
    ordered = dict.fromkeys([*close, *starts])
    return [known[key] for key in ordered][:limit]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`` (did you mean a or b?)``, or nothing."""
    close = nearest(name, names)
    return f" (did you mean {' or '.join(close)}?)" if close else ""
