"""The service manager does what systemd 252 was seen to do with the same units."""

from __future__ import annotations

import os
import signal
import time

from tests.unit.sim_host.manager import Manager, alive, until


def test_starts_stops_and_tells(manager: Manager) -> None:
    manager.unit("plain.service", "ExecStart=/bin/sleep 1000", "Description=A sleeper")
    before = manager.show("plain.service")
    assert (before["LoadState"], before["ActiveState"], before["InvocationID"]) == ("loaded", "inactive", "")
    manager.systemctl("start", "plain.service")
    props = manager.show("plain.service")
    assert (props["ActiveState"], props["SubState"], props["Result"]) == ("active", "running", "success")
    assert alive(int(props["MainPID"]))
    assert props["MainPID"] == props["ExecMainPID"]
    assert len(props["InvocationID"]) == 32
    assert int(props["ExecMainStartTimestampMonotonic"]) > 0
    assert "argv[]=/bin/sleep 1000 ; ignore_errors=no" in props["ExecStart"]
    manager.systemctl("stop", "plain")
    after = manager.show("plain.service")
    assert (after["ActiveState"], after["SubState"], after["Result"]) == ("inactive", "dead", "success")
    assert (after["MainPID"], after["ExecMainCode"], after["ExecMainStatus"]) == ("0", "2", "15")
    assert after["InvocationID"] == props["InvocationID"]
    assert not alive(int(props["MainPID"]))
    assert manager.journal("plain") == [
        "Started plain.service - A sleeper.",
        "Stopping plain.service - A sleeper...",
        "plain.service: Deactivated successfully.",
        "Stopped plain.service - A sleeper.",
    ]


def test_an_unknown_unit_has_defaults_and_cannot_be_started(manager: Manager) -> None:
    props = manager.show("nope.service")
    assert (props["LoadState"], props["ActiveState"], props["NRestarts"]) == ("not-found", "inactive", "0")
    assert manager.systemctl("show", "-P", "Job", "nope.service") == "\n"
    for verb, code in (("start", 5), ("stop", 5), ("kill", 1), ("reset-failed", 1)):
        done = manager.run("systemctl", verb, "nope.service", check=False)
        assert done.returncode == code
        assert "nope.service not" in done.stderr


def test_a_crash_is_restarted_as_another_invocation(manager: Manager) -> None:
    post = manager.script("post", 'echo "post $SERVICE_RESULT $EXIT_CODE $EXIT_STATUS $INVOCATION_ID"')
    manager.unit(
        "crash.service",
        f"ExecStart=/bin/sleep 1000\nExecStopPost=-+{post}\nRestart=always\nRestartSec=300ms\nKillMode=mixed",
    )
    manager.systemctl("start", "crash")
    first = manager.show("crash.service")
    os.kill(int(first["MainPID"]), signal.SIGKILL)
    waiting = manager.reach("crash.service", SubState="auto-restart")
    assert (waiting["ActiveState"], waiting["Result"], waiting["Job"]) == ("activating", "signal", "")
    assert (waiting["ExecMainCode"], waiting["ExecMainStatus"], waiting["MainPID"]) == ("2", "9", "0")
    second = manager.reach("crash.service", SubState="running", NRestarts="1")
    assert second["InvocationID"] != first["InvocationID"]
    assert (second["Result"], second["ExecMainStatus"]) == ("success", "0")
    lines = manager.journal("crash")
    assert "crash.service: Main process exited, code=killed, status=9/KILL" in lines
    assert f"post signal killed KILL {first['InvocationID']}" in lines
    assert "crash.service: Scheduled restart job, restart counter is at 1." in lines
    manager.systemctl("restart", "crash")
    assert manager.show("crash.service")["NRestarts"] == "0"
    os.kill(int(manager.show("crash.service")["MainPID"]), signal.SIGKILL)
    manager.reach("crash.service", SubState="running", NRestarts="1")
    manager.systemctl("reset-failed", "crash")
    assert manager.show("crash.service")["NRestarts"] == "0"
    manager.systemctl("stop", "crash")


def test_a_job_stands_for_what_was_asked(manager: Manager) -> None:
    seen = manager.root / "tmp/jobs"
    systemctl = manager.root / "usr/bin/systemctl"
    post = manager.script("jobpost", f'echo "[$({systemctl} show -P Job job.service)]" >>{seen}')
    manager.unit("job.service", f"ExecStart=/bin/sleep 1000\nExecStopPost=-+{post}\nRestart=always\nRestartSec=1h")
    for asked in ("stop", "restart"):
        manager.systemctl("start", "job")
        manager.systemctl(asked, "job")
    os.kill(int(manager.show("job.service")["MainPID"]), signal.SIGKILL)
    manager.reach("job.service", SubState="auto-restart")
    stop, restart, crash = seen.read_text().split()
    assert stop.strip("[]").isdigit()
    assert restart.strip("[]").isdigit()
    assert crash == "[]"
    manager.systemctl("stop", "job")
    props = manager.show("job.service")
    assert (props["ActiveState"], props["Result"]) == ("inactive", "signal")


def test_a_drop_in_needs_a_reload(manager: Manager) -> None:
    manager.unit("drop.service", "ExecStart=/bin/sleep 1000\nEnvironment=A=1")
    manager.systemctl("start", "drop")
    folder = manager.units / "drop.service.d"
    folder.mkdir()
    (folder / "zz.conf").write_text('[Service]\nExecStart=\nExecStart=/bin/sleep 2000\nEnvironment="B=two words"\n')
    (folder / "aa.conf").write_text("[Service]\nTimeoutStopSec=7\n")
    unread = manager.show("drop.service")
    assert (unread["DropInPaths"], unread["NeedDaemonReload"]) == ("", "no")
    manager.systemctl("restart", "drop")
    assert "sleep 1000" in manager.show("drop.service")["ExecStart"]
    manager.systemctl("daemon-reload")
    read = manager.show("drop.service")
    assert read["DropInPaths"] == f"{folder}/aa.conf {folder}/zz.conf"
    assert (read["Environment"], read["TimeoutStopUSec"]) == ('A=1 "B=two words"', "7s")
    manager.systemctl("restart", "drop")
    main = manager.show("drop.service")["MainPID"]
    with open(f"/proc/{main}/cmdline") as file:
        assert file.read() == "/bin/sleep\x002000\x00"
    with open(f"/proc/{main}/environ") as file:
        assert "B=two words" in file.read().split("\0")
    (folder / "zz.conf").write_text("[Service]\n# changed\nExecStart=\nExecStart=/bin/sleep 3000\n")
    os.utime(folder / "zz.conf", (1, 1))
    assert manager.show("drop.service")["NeedDaemonReload"] == "yes"
    assert "changed on disk" in manager.run("systemctl", "start", "drop").stderr
    assert f"# {folder}/zz.conf\n[Service]\n# changed\n" in manager.systemctl("cat", "drop")
    manager.systemctl("stop", "drop")


def test_a_failure_starts_the_handler_once_and_says_what_failed(manager: Manager) -> None:
    said = manager.root / "tmp/handled"
    handler = manager.script(
        "handler", f'echo "$1 $MONITOR_UNIT $MONITOR_SERVICE_RESULT $MONITOR_EXIT_STATUS" >>{said}'
    )
    manager.unit("onfail@.service", f"Type=oneshot\nExecStart={handler} %i", wanted=False)
    manager.unit(
        "failing.service",
        "ExecStart=/bin/sh -c 'exit 3'\nRestart=on-failure\nRestartSec=20ms",
        "OnFailure=onfail@%n.service\nStartLimitBurst=3\nStartLimitIntervalSec=60",
    )
    manager.systemctl("start", "failing")
    props = manager.reach("failing.service", ActiveState="failed")
    assert (props["Result"], props["NRestarts"], props["ExecMainStatus"]) == ("exit-code", "3", "3")
    assert until(lambda: said.exists() and said.read_text()) == "failing.service failing.service exit-code 3\n"
    assert "failing.service: Start request repeated too quickly." in manager.journal("failing")
    refused = manager.run("systemctl", "start", "failing", check=False)
    assert refused.returncode == 1
    assert "attempted too often" in refused.stderr
    manager.systemctl("reset-failed", "failing")
    assert manager.show("failing.service")["ActiveState"] == "inactive"
    manager.systemctl("start", "failing")
    assert "Finished onfail@failing.service.service." in manager.journal("onfail@failing.service.service")


def test_an_asked_stop_with_a_bad_status_counts_as_failed(manager: Manager) -> None:
    said = manager.root / "tmp/asked"
    handler = manager.script("askedhandler", f"echo handled >>{said}")
    manager.unit("askedfail.service", f"Type=oneshot\nExecStart={handler}", wanted=False)
    main = manager.script("nine", 'trap "exit 9" TERM; touch $0.ready; while :; do sleep 0.05; done')
    manager.unit("nine.service", f"ExecStart={main}\nRestart=always", "OnFailure=askedfail.service")
    manager.systemctl("start", "nine")
    until(main.with_name("nine.ready").exists)
    manager.systemctl("stop", "nine")
    props = manager.show("nine.service")
    assert (props["ActiveState"], props["Result"], props["ExecMainStatus"]) == ("failed", "exit-code", "9")
    assert until(lambda: said.exists() and said.read_text()) == "handled\n"


def test_a_failing_first_command_ends_the_start_and_an_ignored_one_does_not(manager: Manager) -> None:
    manager.unit("ignored.service", "ExecStartPre=-+/bin/false\nExecStart=/bin/sleep 1000")
    manager.systemctl("start", "ignored")
    manager.systemctl("stop", "ignored")
    manager.unit("prefail.service", "ExecStartPre=/bin/false\nExecStart=/bin/sleep 1000")
    failed = manager.run("systemctl", "start", "prefail", check=False)
    assert failed.returncode == 1
    assert "Job for prefail.service failed" in failed.stderr
    assert "prefail.service: Control process exited, code=exited, status=1/FAILURE" in manager.journal("prefail")


def test_a_program_that_is_not_there_is_told_as_systemd_tells_it(manager: Manager) -> None:
    manager.unit("gone.service", "Type=exec\nExecStart=/nonexistent/engine")
    assert manager.run("systemctl", "start", "gone", check=False).returncode == 1
    props = manager.show("gone.service")
    assert (props["ActiveState"], props["ExecMainStatus"]) == ("failed", "203")
    assert "gone.service: Main process exited, code=exited, status=203/EXEC" in manager.journal("gone")


def test_mixed_kills_the_rest_after_the_main_process(manager: Manager) -> None:
    pids = manager.root / "tmp/mixed.pids"
    main = manager.script("mixed", f'(trap "" TERM; exec setsid sleep 1000) & echo $! >{pids}; exec sleep 1000')
    manager.unit("mixed.service", f"ExecStart={main}\nKillMode=mixed\nTimeoutStopSec=60")
    manager.systemctl("start", "mixed")
    other = int(until(lambda: pids.exists() and pids.read_text()))
    began = time.monotonic()
    manager.systemctl("stop", "mixed")
    assert time.monotonic() - began < 5
    assert not alive(other)
    assert manager.show("mixed.service")["Result"] == "success"
    assert f"mixed.service: Killing process {other} (sleep) with signal SIGKILL." in manager.journal("mixed")


def test_a_main_process_that_does_not_end_is_killed_in_time(manager: Manager) -> None:
    main = manager.script("deaf", 'trap "" TERM; touch $0.ready; while :; do sleep 0.05; done')
    manager.unit("deaf.service", f"ExecStart={main}\nKillMode=mixed\nTimeoutStopSec=300ms")
    manager.systemctl("start", "deaf")
    until(main.with_name("deaf.ready").exists)
    manager.systemctl("stop", "deaf")
    props = manager.show("deaf.service")
    assert (props["ActiveState"], props["Result"], props["ExecMainStatus"]) == ("failed", "timeout", "9")
    assert "deaf.service: State 'stop-sigterm' timed out. Killing." in manager.journal("deaf")


def test_a_pending_stop_is_helped_on_by_a_kill(manager: Manager) -> None:
    main = manager.script("stuck", 'trap "" TERM; touch $0.ready; while :; do sleep 0.05; done')
    manager.unit("stuck.service", f"ExecStart={main}\nKillMode=mixed\nTimeoutStopSec=600\nRestart=always")
    manager.systemctl("start", "stuck")
    until(main.with_name("stuck.ready").exists)
    manager.systemctl("stop", "--no-block", "stuck")
    stopping = manager.reach("stuck.service", SubState="stop-sigterm")
    assert stopping["ActiveState"] == "deactivating"
    assert stopping["Job"].isdigit()
    manager.systemctl("kill", "-s", "KILL", "stuck")
    ended = manager.reach("stuck.service", ActiveState="failed")
    assert (ended["Result"], ended["Job"], ended["MainPID"]) == ("signal", "", "0")
    assert not alive(int(stopping["MainPID"]))


def test_a_start_waits_for_the_end_of_a_stop(manager: Manager) -> None:
    main = manager.script("slow", 'trap "sleep 0.5; exit 0" TERM; touch $0.ready; while :; do sleep 0.05; done')
    manager.unit("slow.service", f"ExecStart={main}\nKillMode=mixed")
    manager.systemctl("start", "slow")
    until(main.with_name("slow.ready").exists)
    first = manager.show("slow.service")
    manager.systemctl("stop", "--no-block", "slow")
    manager.systemctl("start", "slow")
    second = manager.show("slow.service")
    assert (second["ActiveState"], second["SubState"]) == ("active", "running")
    assert second["InvocationID"] != first["InvocationID"]
    manager.systemctl("stop", "slow")


def test_orphans_of_orphans_end_with_their_unit(manager: Manager) -> None:
    pids = manager.root / "tmp/orphan.pids"
    daemon = "import os,sys,time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    daemon += "open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(1000)"
    main = manager.script("orphan", f'/usr/bin/env -i /usr/bin/python3 -c "{daemon}" {pids}; exec sleep 1000')
    manager.unit("orphan.service", f"ExecStart={main}\nKillMode=control-group\nTimeoutStopSec=5")
    manager.systemctl("start", "orphan")
    orphan = int(until(lambda: pids.exists() and pids.read_text()))
    assert alive(orphan)
    manager.systemctl("stop", "orphan")
    assert not alive(orphan)


def test_a_transient_unit_is_restarted_and_forgotten(manager: Manager) -> None:
    more = ("-p", "Type=exec", "-p", "Restart=always", "-p", "RestartSec=20ms", "-p", "StartLimitIntervalSec=0")
    more += ("-p", "OOMScoreAdjust=-900")
    done = manager.run("systemd-run", "--unit=guard-1", "--collect", *more, "/bin/sleep", "1000")
    assert "Running as unit: guard-1.service" in done.stderr
    again = manager.run("systemd-run", "--unit=guard-1", "--collect", *more, "/bin/sleep", "1", check=False)
    assert again.returncode == 1
    assert "already loaded" in again.stderr
    main = int(manager.show("guard-1.service")["MainPID"])
    os.kill(main, signal.SIGKILL)
    until(lambda: int(manager.show("guard-1.service")["MainPID"]), lambda pid: pid not in (0, main))
    running = manager.systemctl(
        "list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--no-pager"
    )
    assert "guard-1.service loaded active running /bin/sleep 1000\n" in running
    manager.systemctl("stop", "guard-1")
    assert manager.show("guard-1.service")["LoadState"] == "not-found"
    missing = manager.run("systemd-run", "--unit=guard-2", "-p", "Type=exec", "/nonexistent/x", check=False)
    assert missing.returncode == 1
    assert "No such file" in missing.stderr


def test_programs_get_systemds_environment(manager: Manager) -> None:
    manager.unit("env.service", "Type=oneshot\nExecStart=/usr/bin/env\nEnvironment=P=100%% Q=$$x", wanted=False)
    manager.systemctl("start", "env")
    found = dict(line.partition("=")[::2] for line in manager.journal("env") if "=" in line)
    assert (found["P"], found["Q"]) == ("100%", "$$x")
    assert {"PATH", "LANG", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"} <= set(found)
    assert found["PATH"].startswith(f"{manager.root}/usr/bin:")
    assert "HOME" not in found
