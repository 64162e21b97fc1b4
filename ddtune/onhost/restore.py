"""The way back to stable: stop, start, check. Each phase stands in txn.json before it begins, and may begin again.

Nothing here uses the network, and nothing needs room on /var.
"""

from __future__ import annotations

import time
from contextlib import suppress

from . import canary, clock, kept, residue
from .hand import Hand
from .txn import HOST_ACTION_REQUIRED, GaveUp, HostAction, Restored, RestoreFailed, Restoring, Txn
from .unit import SystemctlError, UnitState
from .watch_unit import over, said

POLITE = frozenset(
    (
        "aborted", "operator_request", "lease_lost", "deadline_expired", "garbage_output", "wrong_output",
        "accept_collapse", "graphs_off", "slow", "gate_inconclusive", "drift", "link_lost", "known_bad",
    )
)  # fmt: skip
"""Causes that leave an engine behind which can still end in an orderly way."""

POLL_S = 0.1
KILL_S = 30.0
QUEUED_S = 15.0
WRONG_ANSWERS = 3
_KEPT_CHARS = 800


def go_on(hand: Hand, txn: Txn) -> None:
    """Do the phase that ``txn`` is in."""
    assert txn.restore is not None
    phases = {"stop": _stop, "start": _start, "check": _check, "give_up": _give_up}
    phases[txn.restore.phase](hand, txn)


def _stop(hand: Hand, txn: Txn) -> None:
    hand.apply(lambda at: Restoring(at, txn.op, "stop"))
    state = hand.systemctl.state(hand.unit)
    if _stable_runs(hand, txn, state):
        hand.apply(lambda at: Restoring(at, txn.op, "check"))
        return
    if stop_unit(hand, txn, polite=txn.cause in POLITE):
        hand.apply(lambda at: Restoring(at, txn.op, "start"))
        return
    _hand_over(hand, txn, "residue", f"processes of {hand.unit} do not end on SIGKILL: restart the host")


def _hand_over(hand: Hand, txn: Txn, cause: str, action: str) -> None:
    """No start can help before a person has: the unit stays stopped."""
    named = tuple(said(text, "guard") for text in residue.foreign(hand.install))
    hand.apply(lambda at: HostAction(at, txn.op, cause, action, (said(action, "guard"), *named)))
    hand.apply(lambda at: RestoreFailed(at, txn.op, cause, final=True))


def _stable_runs(hand: Hand, txn: Txn, state: UnitState) -> bool:
    """Stable is up already: started by systemd after the candidate's crash, or never stopped at all."""
    assert txn.restore is not None
    if txn.restore.tries > 1 or over(state) or state.active not in ("active", "activating"):
        return False
    if txn.stable_invocation:
        return state.invocation == txn.stable_invocation
    untouched = "swapped" in txn.times and txn.trial_invocation is None and state.invocation == txn.start_invocation
    return untouched and not hand.systemctl.job(hand.unit)


def stop_unit(hand: Hand, txn: Txn, polite: bool) -> bool:
    """Stop the unit, by force after a while; False when processes survive that."""
    state = hand.systemctl.state(hand.unit)
    if polite and state.main_pid:
        canary.abort_all(txn.api_port, txn.api_key_file, state.main_pid)
    hand.systemctl.stop(hand.unit, limit_s=15)
    # Without the stop job the kill would count as a crash, and systemd would start the unit again.
    if _wait_down(hand, txn.stop_timeout_s if polite else txn.stop_grace_s):
        return True
    until = time.monotonic() + KILL_S
    while time.monotonic() < until:
        # It may have gone in between.
        with suppress(SystemctlError):
            hand.systemctl.kill(hand.unit, "KILL")
        if _wait_down(hand, 1.0):
            return True
    return False


def _wait_down(hand: Hand, limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while not hand.systemctl.state(hand.unit).down:
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_S)
    return True


def _start(hand: Hand, txn: Txn) -> None:
    state = hand.systemctl.state(hand.unit)
    if state.down:
        left = residue.clear(hand.install, hand.paths, txn.api_port)
        if left:
            _hand_over(hand, txn, left.cause, left.action)
            return
    if over(state) or state.invocation != txn.stable_invocation:
        try:
            hand.systemctl.reset_failed(hand.unit)
            hand.systemctl.start(hand.unit)
        except SystemctlError as error:
            _failed(hand, txn, "start_failed", str(error))
            return
    hand.apply(lambda at: Restoring(at, txn.op, "check"))


def _failed(hand: Hand, txn: Txn, cause: str, text: str) -> None:
    print(f"ddtune: stable does not serve: {text}", flush=True)
    hand.apply(lambda at: RestoreFailed(at, txn.op, cause, (said(f"stable: {text}", "guard"),)))


def _check(hand: Hand, txn: Txn) -> None:
    """Wait until stable answers a known prompt rightly, or is seen to be unable to."""
    assert txn.restore is not None
    until = txn.restore.at + txn.restore_s
    seen: str | None = None
    wrong = 0
    while True:
        state = hand.systemctl.state(hand.unit)
        now = hand.load()
        if now is None or now.settled:
            return
        problem = _problem(now, state, seen)
        if problem is None and clock.boottime() >= until:
            problem = "start_hang", f"no answer to a known prompt within {txn.restore_s:.0f} s"
        if problem:
            _failed(hand, txn, *problem)
            return
        if not over(state):
            seen = state.invocation
        if state.running:
            try:
                text = canary.try_once(txn.api_port, txn.api_key_file, state.main_pid, txn.canary)
            except canary.NotYetError:
                wrong = 0
            except canary.WrongError as error:
                wrong += 1
                _keep(hand, txn, str(error), right=False)
                if wrong >= WRONG_ANSWERS:
                    _failed(hand, txn, "wrong_output", str(error))
                    return
            else:
                hand.apply(lambda at: Restored(at, txn.op))
                _keep(hand, txn, text, right=True)
                return
        if _fatal_line(hand, now, state):
            return


def _keep(hand: Hand, txn: Txn, text: str, right: bool) -> None:
    """What stable said to the known prompt, for a ticket."""
    wanted = txn.canary or canary.DEFAULT
    line = {"at": clock.wall(), "stage": "rollback", "id": "canary", "source": "guard", "path": wanted["path"]}
    line.update(body=wanted["body"], expect=wanted.get("expect"), text=text[:_KEPT_CHARS], right=right)
    kept.add(hand.paths, txn.op, "answers", [line])


def _problem(txn: Txn, state: UnitState, seen: str | None) -> tuple[str, str] | None:
    assert txn.restore is not None
    if seen and state.invocation != seen:
        return "engine_dead", "it ended by itself and was started again"
    if not over(state):
        return None
    if seen or state.invocation == txn.stable_invocation:
        return "start_failed", f"it ended by itself: {state.result} (status {state.exit_status})"
    if clock.boottime() - txn.restore.at > QUEUED_S:
        return "start_failed", "systemd did not start it"
    return None


def _fatal_line(hand: Hand, txn: Txn, state: UnitState) -> bool:
    """Wait for the next look; True when stable itself wrote a fatal line, or the hardware reports a fault."""
    until = time.monotonic() + 0.5
    while (left := until - time.monotonic()) > 0:
        for entry, match in hand.lines(left):
            # A line of the candidate that explains its end better, or a fault of the hardware.
            late = entry.source == "unit" and entry.invocation is not None and entry.invocation == txn.trial_invocation
            if late or (match.action and txn.state != HOST_ACTION_REQUIRED):
                hand.decide(match)
            elif entry.source == "unit" and entry.invocation == state.invocation:
                _failed(hand, txn, match.cause, entry.text[:500])
                return True
    return False


def _give_up(hand: Hand, txn: Txn) -> None:
    stop_unit(hand, txn, polite=False)
    hand.apply(lambda at: GaveUp(at, txn.op))
