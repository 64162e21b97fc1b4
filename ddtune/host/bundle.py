"""The on-host programs as bytes: a zipapp to install, and a payload that runs with nothing written on the host.

Both are made from the sources of :mod:`ddtune.onhost` and :mod:`ddtune.inengine` alone, and are the same bytes wherever
they are built.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

PACKAGE = "ddtune.onhost"
# Carried as text, for the engine's own Python to run.
IN_ENGINE = "ddtune.inengine"
PACKAGES = ("ddtune", PACKAGE, IN_ENGINE)

_MAIN = "import sys\n\nfrom ddtune.onhost.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)

# A buffer of one byte never reads past what was asked for, so all behind the payload stays on standard input.
# One line without a backslash or a quote of its own: login shells differ in what these mean inside quotes.
_LOADER = (
    "import io,zlib;f=io.BufferedReader(open(0,chr(114)+chr(98),0,closefd=False),1);"
    "exec(zlib.decompress(f.read(int(f.readline()))))"
)

_IMPORTER = """\
import sys, importlib.abc, importlib.util
class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return importlib.util.spec_from_loader(name, self, origin="<ddtune>", is_package=name in PACKAGES)
    def get_source(self, name):
        return SOURCES[name]
    def is_package(self, name):
        return name in PACKAGES
sys.meta_path.insert(0, Sources())
"""


@cache
def sources() -> dict[str, str]:
    """Source text of every module that goes to a host by its full name, packages too."""
    found = {"ddtune": ""}
    for package in (PACKAGE, IN_ENGINE):
        for file in resources.files(package).iterdir():
            stem, _, kind = file.name.rpartition(".")
            if kind == "py":
                name = package if stem == "__init__" else f"{package}.{stem}"
                found[name] = file.read_text(encoding="utf-8").replace("\r\n", "\n")
    return dict(sorted(found.items()))


def files() -> dict[str, str]:
    """The zipapp's files by their path in it."""
    found = {"__main__.py": _MAIN}
    for name, text in sources().items():
        path = name.replace(".", "/")
        found[f"{path}/__init__.py" if name in PACKAGES else f"{path}.py"] = text
    return found


@cache
def pyz() -> bytes:
    """The zipapp. Not compressed: compressors differ in their bytes, and starting it is faster."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path, text in sorted(files().items()):
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, text)
    return out.getvalue()


@cache
def pyz_sha256() -> str:
    """The name that an installed zipapp is compared by."""
    return hashlib.sha256(pyz()).hexdigest()


def loader_argv(python: str = "python3", *args: str) -> list[str]:
    """The command that reads a payload from standard input and runs it; ``args`` become ``sys.argv[1:]``."""
    return [python, "-I", "-c", _LOADER, *args]


def loader_payload(entry_module: str, extra: Mapping[str, str] | None = None) -> bytes:
    """What the loader reads: a length, a line end, and that many bytes that call ``entry_module``'s ``main``.

    ``entry_module`` is a full name such as ``ddtune.onhost.collector``; its ``main`` takes the list of arguments and
    answers the exit status. ``extra`` are further modules by name. All that follows on standard input is left there.
    """
    modules = {**sources(), **(extra or {})}
    if entry_module not in modules:
        raise ValueError(f"no on-host module is named {entry_module}")
    program = (
        f"SOURCES = {modules!r}\nPACKAGES = {PACKAGES!r}\n{_IMPORTER}"
        f"import importlib\nsys.exit(importlib.import_module({entry_module!r}).main(sys.argv[1:]))\n"
    )
    body = zlib.compress(program.encode(), 9)
    return b"%d\n" % len(body) + body
