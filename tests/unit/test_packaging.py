"""The wheel carries all that an installed ddtune needs, and runs outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("ddtune-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment's bin folder with the wheel in it and this environment's libraries beside it."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", wheel], check=True)
    # Behind the environment's own packages, so that an editable ddtune there does not win.
    libraries = [entry for entry in sys.path if entry.endswith("site-packages")]
    (site / "zz_libraries.pth").write_text("\n".join(libraries) + "\n")
    return folder / "bin"


def test_wheel_carries_every_file_of_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "ddtune").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package <= names
    for room in ("ddtune/onhost/", "ddtune/sim/standin/"):
        assert any(name.startswith(room) for name in names), room


def test_wheel_carries_the_shipped_profiles(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {path.relative_to(ROOT / "profiles") for path in (ROOT / "profiles").rglob("*") if path.is_file()}
    assert {"b8-nvls.toml", "b16-eager.toml", "ar.toml"} <= {str(path) for path in shipped}
    assert {f"ddtune/profiles/shipped/{path}" for path in shipped} <= names


def test_wheel_carries_no_tests(wheel: Path) -> None:
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(("tests/", "screenshots/"))]


@pytest.mark.parametrize("args", [["--help"], ["profiles", "list"]], ids=" ".join)
def test_installed_command_runs_elsewhere(installed: Path, tmp_path: Path, args: list[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [installed / "ddtune", *args],
        cwd=tmp_path,
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert ("b8-nvls" in done.stdout) == (args[0] == "profiles")
    where = [installed / "python", "-c", "import ddtune; print(ddtune.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    assert str(installed.parent) in found
