"""A service manager for one unit at a time, as small as the helper needs: files below ROOT/systemd.

Called as ``fake_systemctl.py ROOT ARGUMENTS…``. ``ROOT/systemd/UNIT.json`` is what systemd would know of the unit,
``ROOT/systemd/calls`` every call made. A file ``ROOT/systemd/fail-VERB`` makes that verb fail; ``ignore-reload`` makes
daemon-reload see nothing new.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

root = Path(sys.argv[1])
memory = root / "systemd"
units = root / "etc/systemd/system"
DEFAULTS = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "Result": "success",
            "MainPID": "0", "InvocationID": "", "NRestarts": "0"}  # fmt: skip


def load(unit):
    path = memory / f"{unit}.json"
    return json.loads(path.read_text()) if path.exists() else dict(DEFAULTS)


def save(unit, props):
    (memory / f"{unit}.json").write_text(json.dumps(props))


def read(unit):
    """Settings of the unit file and its drop-ins, lists in order."""
    found = {"_list": [], "_files": []}
    files = [units / unit, *sorted((units / f"{unit}.d").glob("*.conf"))]
    for file in filter(Path.exists, files):
        found["_files"].append(str(file))
        for line in file.read_text().splitlines():
            key, equals, value = line.partition("=")
            if not equals or line.startswith("#"):
                continue
            if key == "ExecStart" and not value:
                found["_list"] = [entry for entry in found["_list"] if entry[0] != "ExecStart"]
            found["_list"].append((key, value))
    return found


def reload(unit):
    props, found = load(unit), read(unit)
    if not (units / unit).exists():
        return
    single = dict(found["_list"])
    starts = [value for key, value in found["_list"] if key == "ExecStart" and value]
    show = " ; ".join(
        f"{{ path={words(one)[0]} ; argv[]={' '.join(words(one))} ; ignore_errors=no ; pid=0 }}" for one in starts
    )
    props.update(LoadState="loaded", FragmentPath=str(units / unit), DropInPaths=" ".join(found["_files"][1:]),
                 ExecStart=show, Type=single.get("Type", "simple"), User=single.get("User", ""), Group="",
                 DynamicUser="no", StartLimitBurst="5", _start=starts,
                 _pre=[value for key, value in found["_list"] if key == "ExecStartPre"],
                 _env=dict(value.split("=", 1) for key, value in found["_list"] if key == "Environment"))  # fmt: skip
    save(unit, props)


def words(command):
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(command.lstrip("-+"))]


def start(unit):
    props = load(unit)
    invocation = uuid.uuid4().hex
    env = {"PATH": os.environ["PATH"], "INVOCATION_ID": invocation, **props["_env"]}
    for command in props["_pre"]:
        subprocess.run(words(command), env=env, check=False, stdout=subprocess.DEVNULL)
    main = subprocess.Popen(words(props["_start"][0]), env=env, start_new_session=True, cwd=str(root),
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    props.update(
        ActiveState="active", SubState="running", MainPID=str(main.pid), InvocationID=invocation, NRestarts="0"
    )
    save(unit, props)


def stop(unit, number=signal.SIGTERM):
    props = load(unit)
    pid = int(props["MainPID"])
    if pid:
        if (memory / "stubborn").exists() and number != signal.SIGKILL:
            return
        os.killpg(pid, number)
        while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            time.sleep(0.01)
    props.update(ActiveState="inactive", SubState="dead", MainPID="0")
    save(unit, props)


arguments = [word for word in sys.argv[2:] if word not in ("--no-pager", "--no-block")]
memory.mkdir(exist_ok=True)
with open(memory / "calls", "a") as calls:
    calls.write(" ".join(arguments) + "\n")
verb = arguments[0]
if (memory / f"fail-{verb}").exists():
    sys.exit(f"fake: {verb} failed")
if verb == "--version":
    print("systemd 252 (252.39-1~deb12u1)")
elif verb == "daemon-reload":
    if not (memory / "ignore-reload").exists():
        for file in units.glob("*.service"):
            if "@" not in file.name:
                reload(file.name)
elif verb == "show":
    props = load(arguments[-1])
    if arguments[1] == "-P":
        print(props.get(arguments[2], ""))
    else:
        print("\n".join(f"{name}={props.get(name, '')}" for name in arguments[2].split(",")))
elif verb == "start":
    start(arguments[1])
elif verb == "stop":
    stop(arguments[1])
elif verb == "restart":
    stop(arguments[1])
    start(arguments[1])
elif verb == "kill":
    assert re.fullmatch(r"-s", arguments[1])
    stop(arguments[-1], signal.Signals[f"SIG{arguments[2]}"])
elif verb != "reset-failed":
    sys.exit(f"fake: unknown verb {verb}")
