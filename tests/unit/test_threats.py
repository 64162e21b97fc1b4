"""docs/threats.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_every_test_that_a_line_names_is_there() -> None:
    text = (CHECKOUT / "docs/threats.md").read_text()
    sources = {str(path.relative_to(CHECKOUT / "tests")): path.read_text() for path in CHECKOUT.glob("tests/**/*.py")}
    for name in re.findall(r"`((?:\w+/)+\w+\.py)", text):
        assert any(path.endswith(name) for path in sources), name
    everything = "\n".join(sources.values())
    named = set(re.findall(r"\b(test_\w+?)(?:_\*)?(?=[`(])", text)) | set(re.findall(r"::(test_\w+)`", text))
    for test in named:
        assert f"def {test}" in everything or f"{test}.py" in text, test
    assert len(named) > 20


def test_security_says_how_to_report_and_leads_there() -> None:
    text = (CHECKOUT / "SECURITY.md").read_text()
    assert "## How to report" in text
    assert "docs/threats.md" in text
