"""Whether a start through ddtune's launcher would be like the process that runs: its user, its place, its output.

systemd gives the launcher what the unit says. Whatever else the process has, a wrapper has made, or a prefix of its
command; the launcher would not.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Mapping
from typing import Optional

from .adopt_checks import absolute
from .inspect_process import Process
from .paths import Install, UnitPaths

PROPERTIES = (
    "Id", "Transient", "User", "Group", "SupplementaryGroups", "Nice", "CPUSchedulingPolicy", "OOMScoreAdjust",
    "PrivateNetwork", "NetworkNamespacePath", "RootDirectory", "StandardOutput", "StandardError", "LogNamespace",
)  # fmt: skip
JOURNAL = ("journal", "journal+console", "syslog", "kmsg")
"""Outputs that reach the journal."""
_POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle"}


def other_unit(unit: str, props: Mapping[str, str]) -> Optional[str]:
    """Why ``unit`` is no unit of its own that could be started again."""
    name = props.get("Id")
    if name and name != unit:
        return f"{unit} is another name of {name}: adopt it by that one"
    if props.get("Transient") == "yes":
        return f"{unit} was made by systemd-run and is gone when it ends: give it a unit file"
    return None


def other_user(pid: int, props: Mapping[str, str]) -> Optional[str]:
    """The ``User=`` and ``Group=`` that the unit would need to run as the process ``pid`` does."""
    ids = owner(pid)
    if ids is None:
        return None
    uid, gid, _ = ids
    wanted = _entry(props.get("User", ""))
    if wanted is None:
        return None
    group = props.get("Group") or ""
    wanted_gid = _gid(group) if group else wanted.pw_gid
    if (uid, gid) == (wanted.pw_uid, wanted_gid):
        return None
    return f"User={_user_name(uid)} Group={_group_name(gid)}"


def output(props: Mapping[str, str]) -> Optional[str]:
    """The setting that keeps what the engine says from the journal that ddtune reads; None where nothing does."""
    if props.get("StandardOutput") not in (None, *JOURNAL):
        return f"StandardOutput={props['StandardOutput']}"
    return f"LogNamespace={props['LogNamespace']}" if props.get("LogNamespace") else None


def other_acts(pid: int, props: Mapping[str, str]) -> list[str]:
    """Settings of ``pid`` that its unit does not give it, each as the line that the unit would need."""
    found = [_groups(pid, props), _nice(pid, props), _policy(pid, props), _oom(pid, props), _network(pid, props)]
    found += [_root(pid, props), *(_output(pid, props, name, fd) for name, fd in _OUTPUTS)]
    return [line for line in found if line]


def no_start(install: Install, paths: UnitPaths, props: Mapping[str, str], process: Process) -> Optional[str]:
    """Why ddtune's launcher could not start what runs, in one sentence."""
    unit, pid = paths.unit, process.pid
    if not os.access(absolute(process.argv, process.env, process.cwd)[0], os.X_OK):
        return f"the command line of {unit} begins with {process.argv[0]!r}, which names no program: begin it with one"
    # What an embedded host runs, it runs as whoever started it.
    user = None if install.root else other_user(pid, props)
    if user:
        return (
            f"{unit} runs as another user than its unit says: put {user} into its [Service], without a + or ! before "
            "the command, and restart it"
        )
    needed = [install.python, *(_there(path) for path in (install.pyz, paths.state, paths.run))]
    hidden = [path for path in needed if not _sees(pid, path)]
    if hidden:
        return (
            f"{unit} does not see {' and '.join(hidden)} of this host (TemporaryFileSystem=, InaccessiblePaths= or "
            "their like): ddtune's launcher could not start it from in there"
        )
    if not _executable(pid, install.python):
        return f"{unit} may not execute {install.python} (NoExecPaths=), which is what ddtune's launcher begins with"
    return None


def _there(path: str) -> str:
    """``path``, or what of it is there already."""
    while path != "/" and not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _sees(pid: int, path: str) -> bool:
    """Whether ``path`` is the same in what ``pid`` sees of the file system; True where that may not be read."""
    try:
        return os.path.samefile(f"/proc/{pid}/root{path}", path)
    except PermissionError:
        return True
    except OSError:
        return False


def _executable(pid: int, path: str) -> bool:
    try:
        return not os.statvfs(f"/proc/{pid}/root{path}").f_flag & os.ST_NOEXEC
    except OSError:
        return True


def owner(pid: int) -> Optional[tuple[int, int, frozenset[int]]]:
    """Effective user, group and further groups of ``pid``."""
    status = _status(pid)
    try:
        uid, gid = (int(status[name].split()[1]) for name in ("Uid", "Gid"))
        return uid, gid, frozenset(int(word) for word in status["Groups"].split())
    except (KeyError, IndexError, ValueError):
        return None


def _groups(pid: int, props: Mapping[str, str]) -> Optional[str]:
    ids, entry = owner(pid), _entry(props.get("User", ""))
    if ids is None or entry is None or not props.get("User"):
        return None
    _, gid, groups = ids
    given = set(os.getgrouplist(entry.pw_name, gid)) | {
        _gid(name) for name in props.get("SupplementaryGroups", "").split()
    }
    if groups | {gid} == given | {gid}:
        return None
    return f"SupplementaryGroups={' '.join(sorted(map(_group_name, groups)))}"


def _nice(pid: int, props: Mapping[str, str]) -> Optional[str]:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    given = props.get("Nice")
    return f"Nice={fields[16]}" if len(fields) > 16 and given and fields[16] != given else None


def _policy(pid: int, props: Mapping[str, str]) -> Optional[str]:
    try:
        policy = os.sched_getscheduler(pid) & ~getattr(os, "SCHED_RESET_ON_FORK", 0)
    except OSError:
        return None
    given = props.get("CPUSchedulingPolicy", "")
    if not given.isdigit() or int(given) == policy:
        return None
    return f"CPUSchedulingPolicy={_POLICIES.get(policy, policy)}"


def _oom(pid: int, props: Mapping[str, str]) -> Optional[str]:
    score, given = _read(pid, "oom_score_adj").strip(), props.get("OOMScoreAdjust")
    return f"OOMScoreAdjust={score}" if score and given and score != given else None


def _network(pid: int, props: Mapping[str, str]) -> Optional[str]:
    if props.get("PrivateNetwork") == "yes" or props.get("NetworkNamespacePath"):
        return None
    own, first = _link(pid, "ns/net"), _link(1, "ns/net")
    if own is None or first is None or own == first:
        return None
    return f"NetworkNamespacePath={_netns(own) or '…'}"


def _netns(link: str) -> Optional[str]:
    """The name under /run/netns of a network namespace, as ``ip netns`` keeps them."""
    number = link.partition("[")[2].rstrip("]")
    for folder in ("/run/netns", "/var/run/netns"):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            path = f"{folder}/{name}"
            if str(os.stat(path).st_ino) == number:
                return path
    return None


def _root(pid: int, props: Mapping[str, str]) -> Optional[str]:
    root = _link(pid, "root")
    return None if root in (None, "/") or props.get("RootDirectory") else f"RootDirectory={root}"


_OUTPUTS = (("StandardOutput", 1), ("StandardError", 2))


def _output(pid: int, props: Mapping[str, str], name: str, descriptor: int) -> Optional[str]:
    given = props.get(name)
    if (props.get("StandardOutput") if given == "inherit" else given) not in JOURNAL:
        return None
    target = _link(pid, f"fd/{descriptor}")
    if target is None or target.startswith("socket:"):
        return None
    if target.startswith("/") and not target.startswith("/dev/"):
        return f"{name}=append:{target}"
    if target == "/dev/null":
        return f"{name}=null"
    return f"{name}=… (it writes to {target})"


def _entry(user: str) -> Optional[pwd.struct_passwd]:
    try:
        return pwd.getpwuid(int(user or 0)) if user.isdigit() or not user else pwd.getpwnam(user)
    except KeyError:
        return None


def _gid(name: str) -> int:
    try:
        return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
    except KeyError:
        return -1


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _status(pid: int) -> dict[str, str]:
    pairs = (line.partition(":") for line in _read(pid, "status").splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _read(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _link(pid: int, name: str) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return None
