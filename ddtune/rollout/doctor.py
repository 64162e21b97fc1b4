"""What works on a host and what does not: pure findings over what was seen of it."""

from __future__ import annotations

from collections.abc import Iterator

from ddtune.rollout import doctor_ddtune, doctor_unit
from ddtune.rollout.doctor_look import Seen
from ddtune.rollout.symptom import Symptom, bad, good, note

ROOM_MIB = {"/var/lib": 64, "/run": 8, "/dev/shm": 1024}
OLDEST_PYTHON = (3, 9)
# Of 240 is `Type=exec`, by which the start of a guard is known to have come as far as its program.
OLDEST_SYSTEMD = 240
SLOW_LOGIN_S = 3.0


def examine(seen: Seen) -> list[Symptom]:
    """Every line of ``doctor`` for one host, in the order in which one thing needs the other."""
    return list(_lines(seen))


def _lines(seen: Seen) -> Iterator[Symptom]:
    yield from _reaching(seen)
    if seen.unreachable is not None:
        return
    yield _shell(seen)
    if not seen.shell_speaks:
        return
    yield _fresh(seen)
    if seen.survey is None:
        yield bad(
            "python",
            seen.broken or "the host could not be looked at",
            "nothing can be watched",
            f"install Python 3.9 or newer there, or set python for {seen.host} in ddtune's configuration",
        )
        return
    yield _python(seen)
    yield _systemd(seen)
    yield from doctor_unit.lines(seen)
    yield from _logs(seen)
    yield from _gpus(seen)
    yield from _room(seen)
    yield from doctor_ddtune.lines(seen)
    if seen.broken:
        yield note("broken off", seen.broken)


def _reaching(seen: Seen) -> Iterator[Symptom]:
    error = seen.unreachable
    if error is None:
        rtt = "" if seen.rtt_s is None else f"round trip {1000 * seen.rtt_s:.0f} ms"
        yield good("link", rtt)
        yield good("host key", f"{seen.host_key}, as known here")
        yield good("login", f"{seen.user}, in {seen.login_s or 0:.1f} s")
        return
    cost = "nothing can be seen or done"
    if error.cause in ("unknown_host_key", "changed_host_key", "no_host_keys"):
        yield good("link", "the host answers")
        yield bad("host key", error.message, cost, f"compare the fingerprint on the host, then: ssh {seen.config.ssh}")
    elif error.cause == "auth_failed":
        yield good("link", "the host answers")
        yield bad("login", error.message, cost, f"make `ssh {seen.config.ssh} true` work without a question")
    else:
        yield bad("link", error.message, cost, f"see whether `ssh {seen.config.ssh}` gets there")


def _shell(seen: Seen) -> Symptom:
    if not seen.shell_speaks:
        return bad(
            "login shell",
            f"it gave no output of a command back ({seen.shell_says})",
            "no program can be run there",
            f"let the start-up files of {seen.user} on {seen.host} end at once where no terminal is, and exec no other "
            "shell there",
        )
    if seen.shell_says:
        return note(
            "login shell",
            f"its start-up files print: {seen.shell_says[:80]}",
            "nothing for ddtune, which looks for its own lines; other tools may take it for output",
            "print only where a terminal is",
        )
    return good("login shell", "commands run and answer")


def _fresh(seen: Seen) -> Symptom:
    if seen.fresh is None and seen.fresh_s is not None:
        if seen.fresh_s > SLOW_LOGIN_S:
            return note("fresh login", f"a second login works and takes {seen.fresh_s:.1f} s", "slow switches")
        return good("fresh login", "a second login works")
    if seen.config.confirm_login == "same":
        return note("fresh login", seen.fresh or "", 'none; confirm_login = "same" is set')
    return bad(
        "fresh login",
        seen.fresh or "it was not tried",
        "a switch could not be confirmed and would always roll back",
        f'make logins to {seen.host} work without a touch or a code, or set confirm_login = "same"',
    )


def _python(seen: Seen) -> Symptom:
    version = str((seen.survey or {}).get("python"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_PYTHON:
        return bad("python", f"{seen.config.python} is {version}", "ddtune cannot be installed", "install 3.9 or newer")
    return good("python", f"{seen.config.python} is {version}")


def _systemd(seen: Seen) -> Symptom:
    found = (seen.survey or {}).get("systemd") or {}
    version = str(found.get("version") or "")
    if not version.split(".")[0].isdigit():
        why = found.get("error") or "systemctl does not say its version"
        return bad("systemd", str(why), "no service can be watched or changed", "does this host run systemd?")
    if int(version.split(".")[0]) < OLDEST_SYSTEMD:
        why = "it can only be watched: the guard of a change needs 240 or newer (Type=exec)"
        return bad("systemd", f"version {version}", why, "update the host")
    return good("systemd", f"version {version}")


def _logs(seen: Seen) -> Iterator[Symptom]:
    readable = ((seen.survey or {}).get("journal") or {}).get("readable")
    mend = f"sudo usermod -aG systemd-journal {seen.user}, and log in anew"
    if readable is False:
        why = "no permission to read the journal (group systemd-journal)"
        yield bad("journal", why, "no incident, no start phase and no log can be shown; a switch still works", mend)
        yield bad("kernel log", "no permission to read it", "GPU faults (Xid) are unknown, not none", mend)
        return
    by = "readable" if readable else "no journal on disk was found to look at"
    yield (good if readable else note)("journal", by)
    yield (good if readable else note)("kernel log", by)


def _gpus(seen: Seen) -> Iterator[Symptom]:
    snapshot = seen.snapshot
    if snapshot is None:
        yield note("gpus", "not read: the collector gave no reading")
        return
    lost = [str(gpu.index) for gpu in snapshot.gpus if gpu.lost]
    if lost:
        yield bad("gpus", f"GPU {', '.join(lost)} lost", "a restart would fail", "look at the kernel log for its Xid")
    elif not snapshot.gpus:
        yield bad("gpus", "no GPU reading", "power and memory stay unknown", "is the NVIDIA driver loaded? nvidia-smi")
    else:
        names = sorted({gpu.name for gpu in snapshot.gpus if gpu.name})
        yield good("gpus", f"{len(snapshot.gpus)} × {', '.join(names) or 'GPU'}, read by {snapshot.gpu_source}")
        if any(gpu.dram_util is not None for gpu in snapshot.gpus):
            yield good("gpm", "utilisation of memory and tensor cores is read")
        else:
            yield note("gpm", "not available", "what bounds the run stays unknown", "needs NVML of Hopper or newer")


def _room(seen: Seen) -> Iterator[Symptom]:
    for one in (seen.survey or {}).get("room") or ():
        path = str(one["path"]).removeprefix(seen.config.root)
        wanted = ROOM_MIB.get(path, 0)
        inodes = one.get("free_inodes")
        said = f"{one['free_mib']:,} MiB free".replace(",", " ")
        if one["free_mib"] < wanted or (inodes is not None and inodes < 1000):
            cost = "the engine's ranks cannot share memory" if path == "/dev/shm" else "a switch is refused"
            inodes_said = f", {inodes} inodes" if inodes is not None else ""
            yield bad(f"room {path}", said + inodes_said, cost, f"free {wanted} MiB and 1000 inodes there")
        else:
            yield good(f"room {path}", said)
