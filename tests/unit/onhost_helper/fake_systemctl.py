"""A service manager for one unit at a time, as small as the helper needs: files below ROOT/systemd.

Called as ``fake_systemctl.py ROOT ARGUMENTS…``. ``ROOT/systemd/UNIT.json`` is what systemd would know of the unit,
``ROOT/systemd/calls`` every call made. A file ``ROOT/systemd/fail-VERB`` makes that verb fail; ``ignore-reload`` makes
daemon-reload see nothing new.
"""

import glob
import json
import os
import signal
import sys
import time

root = sys.argv[1]
memory = f"{root}/systemd"
units = f"{root}/etc/systemd/system"
DEFAULTS = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "Result": "success",
            "MainPID": "0", "InvocationID": "", "NRestarts": "0"}  # fmt: skip
COMMANDS = ("ExecStartPre", "ExecStart", "ExecStopPost")


def load(unit):
    try:
        with open(f"{memory}/{unit}.json") as file:
            return json.load(file)
    except FileNotFoundError:
        return dict(DEFAULTS)


def save(unit, props):
    with open(f"{memory}/{unit}.json", "w") as file:
        json.dump(props, file)


def told(what):
    return os.path.exists(f"{memory}/{what}")


def read(unit):
    """Settings of the unit file and its drop-ins in order, and the drop-ins."""
    settings, drop_ins = [], sorted(glob.glob(f"{units}/{unit}.d/*.conf"))
    for path in [f"{units}/{unit}", *drop_ins]:
        with open(path) as file:
            lines = file.read().splitlines()
        for line in lines:
            key, equals, value = line.partition("=")
            if not equals or line.startswith("#"):
                continue
            if key.startswith("Exec") and not value:
                settings = [entry for entry in settings if entry[0] != key]
            else:
                settings.append((key, value))
    return settings, drop_ins


def reload(unit):
    props = load(unit)
    settings, drop_ins = read(unit)
    single = dict(settings)
    commands = {name: [words(value) for key, value in settings if key == name] for name in COMMANDS}
    starts = commands["ExecStart"]
    shown = {name: f"\n{name}=".join(map(entry, found)) for name, found in commands.items()}
    props.update(LoadState="loaded", FragmentPath=f"{units}/{unit}", DropInPaths=" ".join(drop_ins), **shown,
                 User="", Group="", DynamicUser="no", StartLimitBurst="5", _start=starts,
                 Type=single.get("Type", "simple"), KillMode=single.get("KillMode", "control-group"),
                 _pre=commands["ExecStartPre"],
                 _env=dict(value.split("=", 1) for key, value in settings if key == "Environment"))  # fmt: skip
    save(unit, props)


def entry(words):
    return f"{{ path={words[0]} ; argv[]={' '.join(words)} ; ignore_errors=no ; pid=0 }}"


def words(command):
    import shlex

    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(command.lstrip("-+"))]


def start(unit):
    import subprocess

    props = load(unit)
    invocation = os.urandom(16).hex()
    env = {"PATH": os.environ["PATH"], "INVOCATION_ID": invocation, **props["_env"]}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for command in props["_pre"]:
        subprocess.run(command, env=env, check=False, **quiet)
    main = subprocess.Popen(props["_start"][0], env=env, start_new_session=True, cwd=root, **quiet)
    props.update(ActiveState="active", SubState="running", MainPID=str(main.pid), InvocationID=invocation)
    save(unit, props)


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def stop(unit, number=signal.SIGTERM):
    props = load(unit)
    pid = int(props["MainPID"])
    if pid:
        if told("stubborn") and number != signal.SIGKILL:
            return
        os.killpg(pid, number)
        while not ended(pid):
            time.sleep(0.01)
    props.update(ActiveState="inactive", SubState="dead", MainPID="0")
    save(unit, props)


arguments = [word for word in sys.argv[2:] if word not in ("--no-pager", "--no-block")]
with open(f"{memory}/calls", "a") as calls:
    calls.write(" ".join(arguments) + "\n")
verb, unit = arguments[0], arguments[-1]
if told(f"fail-{verb}"):
    sys.exit(f"fake: {verb} failed")
if verb == "--version":
    print("systemd 252 (252.39-1~deb12u1)")
elif verb == "daemon-reload":
    for path in [] if told("ignore-reload") else glob.glob(f"{units}/[!d]*.service"):
        reload(os.path.basename(path))
elif verb == "show":
    props = load(unit)
    if arguments[1] == "-P":
        print(props.get(arguments[2], ""))
    else:
        print("\n".join(f"{name}={props.get(name, '')}" for name in arguments[2].split(",")))
elif verb == "start":
    start(unit)
elif verb == "stop":
    stop(unit)
elif verb == "restart":
    stop(unit)
    start(unit)
elif verb == "kill":
    stop(unit, signal.Signals[f"SIG{arguments[2]}"])
elif verb != "reset-failed":
    sys.exit(f"fake: unknown verb {verb}")
