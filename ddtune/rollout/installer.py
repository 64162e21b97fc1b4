"""The script that root reads and runs on a host whose login is not root: the programs, the helper, one sudoers line."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from ddtune.host import bundle
from ddtune.onhost.paths import Paths
from ddtune.rollout.errors import Refused

_END = "end-of-this-file"
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,60}")

_BUILD = """\
import base64, hashlib, json, os, subprocess, sys, zipfile
work, wanted = sys.argv[1], sys.argv[2]
request = json.load(sys.stdin)
pyz = os.path.join(work, "ddtune-onhost.pyz")
names = []
for folder, _, files in os.walk(os.path.join(work, "src")):
    names += [os.path.relpath(os.path.join(folder, name), os.path.join(work, "src")) for name in files]
with zipfile.ZipFile(pyz, "w", zipfile.ZIP_STORED) as archive:
    for name in sorted(names):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.create_system = 3
        entry.external_attr = 0o100644 << 16
        with open(os.path.join(work, "src", name), "rb") as file:
            archive.writestr(entry, file.read())
with open(pyz, "rb") as file:
    data = file.read()
if hashlib.sha256(data).hexdigest() != wanted:
    sys.exit("The programs above are not as they were printed: print the installer again.")
request["pyz_b64"] = base64.b64encode(data).decode()
command = [sys.executable, "-I", pyz, "install"]
done = subprocess.run(command, input=json.dumps(request).encode(), stdout=subprocess.PIPE)
answer = json.loads(done.stdout)
if not answer.get("ok"):
    sys.exit("Nothing was installed: " + str(answer.get("message")))
print("Installed:", *sorted(answer["files"]), sep="\\n  ")
if answer.get("note"):
    print("Note:", answer["note"])
"""


def script(host: str, user: str, install: dict[str, Any], viewer: str | None = None) -> str:
    """The installer for ``user`` of ``host``; ``install`` are the constants of ``install_request``. Raises Refused.

    ``viewer`` is a login that may look through a helper of its own, and change nothing.
    """
    for name in (user, viewer):
        if name is not None and not _USER.fullmatch(name):
            raise Refused("unknown", f"the login {name!r} cannot be written into a sudoers file: use another one.")
    paths = Paths(install["root"])
    written = (f"{paths.lib}/", paths.helper, paths.viewer, paths.rollback, paths.ended_service, paths.sudoers)
    head = f"""\
#!/bin/sh
# Installs ddtune's on-host programs, for the login {user} of {host}. Read it, then run it as root on that host:
#   sudo sh THIS-FILE
# It starts and stops no service and changes no unit. It writes:
""" + "".join(f"#   {path}\n" for path in written)
    also = ""
    if viewer is not None:
        also = f"# and one lets {viewer} look, through a helper that has no verb that changes anything:\n"
        also += f'#   {viewer} ALL=(root) NOPASSWD: {paths.viewer} ""\n'
    head += f"""\
# The one line in the sudoers file lets {user} run the helper, which takes no arguments, as root:
#   {user} ALL=(root) NOPASSWD: {paths.helper} ""
{also}# To take all of it away again: ddtune unadopt {host}, and then the rm that it prints.
# What follows are the programs as text; their sha256 as one zip is
#   {bundle.pyz_sha256()}
set -eu
umask 022
[ "$(id -u)" = 0 ] || {{ echo "run this as root" >&2; exit 1; }}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
put() {{ mkdir -p "$(dirname "$work/src/$1")" && cat >"$work/src/$1"; }}
"""
    request = json.dumps({"install": install, "sudo_user": user, "viewer": viewer})
    python = shlex.quote(install["python"])
    tail = f"""
cat >"$work/build.py" <<'{_END}'
{_BUILD}{_END}
{python} -I "$work/build.py" "$work" {bundle.pyz_sha256()} <<'{_END}'
{request}
{_END}
"""
    return head + "".join(_file(path, text) for path, text in sorted(bundle.files().items())) + tail


def _file(path: str, text: str) -> str:
    assert not text or text.endswith("\n"), path
    assert _END not in text.splitlines(), path
    return f"\nput {shlex.quote(path)} <<'{_END}'\n{text}{_END}\n"
