"""Rules that keep the source readable and the rooms apart."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted((ROOT / "ddtune").rglob("*.py"))
ONHOST = sorted((ROOT / "ddtune/onhost").glob("*.py"))
# The folders of any Linux host; the others are a URL's and made up.
FOLDERS = {
    *("bin", "boot", "dev", "etc", "home", "lib", "mnt", "nonexistent", "opt", "proc", "root", "run", "sbin", "srv"),
    *("sys", "tmp", "usr", "var"),
}
MADE_UP = {"a", "k", "m", "models", "no", "sglang", "v", "v1", "venv", "x"}
CLIMBS = re.compile(r"(?<![\w./\\-])\.\./([\w.-]+)")
ABSOLUTE = re.compile(r"(?<![\w./}\])$~>-])/([a-zA-Z][\w.-]*)/[\w.-]")
# What the engine's own log says, and a name that is refused.
ELSEWHERE = {"third_party", "x"}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _repository() -> list[Path]:
    """The files that git keeps or would keep; all but the usual litter where this is not a clone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not {".venv", ".git"} & set(path.parts)]


def test_files_stay_small() -> None:
    long = {_name(path): count for path in SOURCES if (count := len(path.read_text().splitlines())) > 400}
    assert not long
    app = ROOT / "ddtune/tui/app.py"
    assert not app.exists() or len(app.read_text().splitlines()) < 250


def test_median_file_is_about_a_hundred_lines() -> None:
    lengths = sorted(len(path.read_text().splitlines()) for path in SOURCES)
    assert lengths[len(lengths) // 2] <= 150


def test_exemptions_give_a_reason() -> None:
    codes = r"[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*"
    from_ruff = re.compile(rf"#\s*noqa(?::\s*{codes})?(.*)$")
    from_mypy = re.compile(r"#\s*type:\s*ignore(?:\[[\w\s,-]+\])?(.*)$")
    bare = []
    for path in [*SOURCES, *(ROOT / "tests").rglob("*.py")]:
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            # mypy reads the package alone.
            found = from_ruff.search(line) or (path in SOURCES and from_mypy.search(line))
            if found and not re.search(r"\w", found[1]):
                bare.append(f"{_name(path)}:{number}")
    assert not bare


def test_modules_defer_annotations() -> None:
    wanted = "from __future__ import annotations"
    code = [path for path in SOURCES if re.search(r"^(?:async )?def |^class ", path.read_text(), re.MULTILINE)]
    assert not [_name(path) for path in code if wanted not in path.read_text()]


def test_repository_stands_alone() -> None:
    """Nothing names a folder beside the checkout or the place where this one happens to lie."""
    found = []
    for path in _repository():
        if path.suffix == ".png":
            continue
        text = path.read_bytes().decode(errors="replace")
        climbs = {name for name in CLIMBS.findall(text) if not _inside(path, name)} - ELSEWHERE
        found += [(_name(path), name) for name in climbs | (set(ABSOLUTE.findall(text)) - FOLDERS - MADE_UP)]
    assert not found


def _inside(path: Path, name: str) -> bool:
    """Whether a file's climb to ``name`` ends in this repository, from its own folder or from one below the root."""
    return (path.parent != ROOT and (path.parent.parent / name).exists()) or (ROOT / name).exists()


def test_import_rules_exist() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {rule["name"] for rule in rules} >= {
        "rooms point one way",
        "the on-host programs stand alone",
        "only the command line starts the embedded host",
        "the embedded host uses only pure parts",
    }


@pytest.mark.parametrize("path", ONHOST, ids=lambda path: path.stem)
def test_onhost_runs_on_the_hosts_python(path: Path) -> None:
    """Python 3.9's syntax, the standard library and its own modules only."""
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    assert path.stem == "__init__" or path.stem not in sys.stdlib_module_names
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            tops = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            tops = [(node.module or "").split(".")[0]]
        else:
            continue
        assert set(tops) <= sys.stdlib_module_names, f"line {node.lineno}: {tops}"


@pytest.mark.parametrize("path", ONHOST, ids=lambda path: path.stem)
def test_onhost_dataclasses_have_no_newer_arguments(path: Path) -> None:
    """``slots`` and ``kw_only`` came with 3.10, which a syntax check does not see."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dataclass":
            assert not {keyword.arg for keyword in node.keywords} & {"slots", "kw_only"}, f"line {node.lineno}"
