"""On-host programs with one part taken out or replaced, to show that the scenarios can fail and to inject clocks.

Patches are of a copy of the sources; the product knows nothing of them.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Sequence

from ddtune.host import bundle
from tests.e2e.guest import Guest

PYZ = "/usr/local/lib/ddtune/1/ddtune-onhost.pyz"
CLOCK = "/run/ddtune-test-clock.json"
STALL = "/run/ddtune-test-stall"
Sources = dict[str, str]


def _replace(name: str, old: str, new: str) -> Callable[[Sources], None]:
    def patch(sources: Sources) -> None:
        path = f"ddtune/onhost/{name}.py"
        assert sources[path].count(old) == 1, f"{path} has changed: the patch no longer fits"
        sources[path] = sources[path].replace(old, new)

    return patch


_PATCHES: dict[str, tuple[Callable[[Sources], None], ...]] = {
    # It lives, is seen alive, and does nothing.
    "guard": (_replace("guard", "            self.step(txn)\n", "            time.sleep(1.0)\n"),),
    # Every start runs the candidate that was last named, whatever the transaction says.
    "choose": (
        _replace(
            "choose",
            "    if late.transacting(paths):\n",
            "    found = store.read_json(paths.txn)\n"
            "    if found and found['state'] not in ('ARMED', 'COMMITTED'):\n"
            "        release = releases.read(paths, found['candidate'])\n"
            "        staged = stage(paths, invocation, found['candidate'], release, 'trial', None)\n"
            "        store.publish(staged, paths.chosen)\n"
            "        return 'trial'\n"
            "    if late.transacting(paths):\n",
        ),
    ),
    # Nobody compares before swapping: a second arm takes over, and a late confirm commits.
    "cas": (
        _replace("txn_forward", "    if txn is not None and busy(txn):\n", "    if txn is None and busy(txn):\n"),
        _replace(
            "txn_forward",
            '    if txn.state not in TRYING or not txn.ready:\n        return wrong_state(txn, "confirmed")\n',
            "",
        ),
        _replace("verbs_txn", "known.state in TRYING:\n        _check_runs", "known.op == '':\n        _check_runs"),
        _replace(
            "txn_forward", "    if not event.invocation == event.running == txn.trial_invocation:", "    if False:"
        ),
        _replace("txn", "    if not isinstance(event, Chosen) and event.op not in (None, txn.op):", "    if False:"),
    ),
    # Of a version that speaks another protocol.
    "older": (
        _replace(
            "helper",
            "from .paths import PROTO, Install, Paths, load_install\n",
            "from .paths import Install, Paths, load_install\n\nPROTO = 0\n",
        ),
    ),
    # Both clocks with what a file says added to them.
    "clock": (
        _replace(
            "clock",
            "    return time.clock_gettime(time.CLOCK_BOOTTIME)\n",
            "    return time.clock_gettime(time.CLOCK_BOOTTIME) + _offset('boottime')\n",
        ),
        _replace("clock", "    return time.time()\n", "    return time.time() + _offset('wall')\n"),
        _replace(
            "clock",
            '_BOOT_ID = "/proc',
            "def _offset(name):\n"
            "    import json\n"
            "    try:\n"
            f"        with open({CLOCK!r}) as file:\n"
            "            return json.load(file).get(name, 0)\n"
            "    except (OSError, ValueError):\n"
            "        return 0\n\n\n"
            '_BOOT_ID = "/proc',
        ),
    ),
    # Stands still before the durable write whose path holds the word in a file.
    "stall": tuple(
        _replace(
            "store",
            old,
            "    import os as _os\n"
            "    try:\n"
            f"        _word = open({STALL!r}).read().strip()\n"
            "    except OSError:\n"
            "        _word = ''\n"
            "    while _word and _os.path.basename(path) == _word:\n"
            f"        open({STALL + '.reached'!r}, 'w').close()\n"
            "        time.sleep(0.05)\n" + old,
        )
        for old in (
            "    atomic_write(path, to_bytes(value), mode, gid)\n",
            "    temp = _beside(path)\n    with _full_disk(path):\n        with suppress",
            "    line = to_bytes(value)\n    with _full_disk(path):\n        fd",
        )
    ),
}
NAMES = tuple(_PATCHES)


def asked() -> tuple[str, ...]:
    """What `make faults BREAK=…` breaks."""
    return tuple(filter(None, os.environ.get("DDTUNE_TEST_BREAK", "").split(",")))


def pyz(patches: Sequence[str]) -> bytes:
    """The zipapp with ``patches`` in it."""
    with zipfile.ZipFile(io.BytesIO(bundle.pyz())) as archive:
        entries = archive.infolist()
        sources = {entry.filename: archive.read(entry).decode() for entry in entries}
    for name in patches:
        for patch in _PATCHES[name]:
            patch(sources)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for entry in entries:
            archive.writestr(entry, sources[entry.filename])
    return out.getvalue()


def install(guest: Guest, patches: Sequence[str]) -> None:
    """Puts the patched zipapp in the place of the installed one; with no patches nothing is done."""
    if patches:
        guest.console(["sh", "-c", 'cat >"$0.new" && mv "$0.new" "$0"', PYZ], pyz(patches))
