"""docs/field-cases.md names the test of each case of the kinds K1, K3, K4 and K5, and no other."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parents[2] / "docs/field-cases.md"


def test_the_table_is_true() -> None:
    text = TABLE.read_text().partition("## In a switch")[0]
    rows = re.findall(r"^\| (K[1345]-\d\d) \| .* \| `(test_\w+\.py)::(test_\w+)` \|$", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| K[1345]-", text, re.MULTILINE))
    for case, file, test in rows:
        assert test == "test_" + case.lower().replace("-", "_")
        assert f"def {test}(given: Given" in (HERE / file).read_text(), case
    files = HERE.glob("test_k[1345]*.py")
    made = {name for file in files for name in re.findall(r"def (test_k\d_\d\d)\(", file.read_text())}
    assert {test for _, _, test in rows} == made
