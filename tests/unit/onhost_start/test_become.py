"""The launcher turns into exactly what was chosen for this start."""

from __future__ import annotations

import os

from tests.unit.onhost_start.rig import UNIT, Rig


def _environ(out: bytes) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in out.decode().rstrip("\0").split("\0"))


def test_environment_is_systemds_but_for_what_the_release_says(rig: Rig) -> None:
    rig.choose()
    done = rig.run("become", UNIT, KEPT="a=b", GONE="1", SET="by systemd", NOTIFY_SOCKET="/run/n")
    assert done.returncode == 0, done.stderr
    assert _environ(done.stdout) == {
        "INVOCATION_ID": "inv1",
        "KEPT": "a=b",
        "SET": "by the release",
        "NOTIFY_SOCKET": "/run/n",
    }


def test_what_was_chosen_for_another_start_is_not_taken(rig: Rig) -> None:
    rig.arm()
    rig.choose("inv1")
    own = rig.run("become", UNIT, invocation="inv1")
    other = rig.run("become", UNIT, invocation="inv2")
    assert b"runs stable" not in own.stderr
    assert b"runs stable" in other.stderr
    assert other.returncode == 0


def test_no_shell_and_no_expansion(rig: Rig) -> None:
    words = ["; rm -rf /", "$(id)", "%h", "a\nb", "--config=/etc/shadow", "é", ""]
    script = "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))"
    release = {"argv": [os.path.realpath("/proc/self/exe"), "-X", "utf8", "-c", script, *words]}
    rig.candidate = rig.put("words", **release)
    rig.arm()
    assert rig.choose()["which"] == "trial"
    done = rig.run("become", UNIT)
    assert done.stdout.decode().split("\0") == words


def test_engine_that_cannot_be_executed_is_one_sentence(rig: Rig) -> None:
    rig.candidate = rig.put("missing", argv=["/no/such/engine"])
    rig.arm()
    rig.choose()
    done = rig.run("become", UNIT)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"/no/such/engine" in done.stderr


def test_nothing_left_to_start_is_one_sentence(rig: Rig) -> None:
    os.unlink(rig.paths.stable)
    assert rig.run("choose", UNIT).returncode == 1
    done = rig.run("become", UNIT)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
