"""Is what runs what was asked for: facts read back from the running process against the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddtune.gate.model import CheckResult, Verdict
from ddtune.profiles.model import Release

NAME = "process_facts"


@dataclass(frozen=True)
class Facts:
    """What was read back from the running service; None where it could not be read.

    ``schedulers_alive`` counts scheduler processes that are neither zombies nor dead. ``release`` is the sha256 that
    the host found to match the running argv and environment.
    """

    argv: tuple[str, ...] | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    env_ok: bool | None = None
    release: str | None = None
    invocation: str | None = None
    n_restarts: int | None = None
    active_state: str | None = None
    schedulers_alive: int | None = None
    model_id: str | None = None
    graphs_in_use: bool | None = None

    @classmethod
    def from_inspect(
        cls, answer: Mapping[str, Any], model_id: str | None = None, graphs_in_use: bool | None = None
    ) -> Facts:
        """Facts from the helper's ``inspect`` answer, with what the API and the log add."""
        argv = answer.get("argv")
        # Whose main process cannot be read has none that could be counted.
        schedulers = None if argv is None else answer.get("schedulers")
        alive = None if schedulers is None else sum(one.get("state") not in {"Z", "X"} for one in schedulers)
        return cls(
            argv=None if argv is None else tuple(argv),
            env=dict(answer.get("env") or {}),
            env_ok=answer.get("release_env_ok"),
            release=(answer.get("matches") or {}).get("release"),
            invocation=answer.get("invocation"),
            n_restarts=answer.get("n_restarts"),
            active_state=answer.get("active_state"),
            schedulers_alive=alive,
            model_id=model_id,
            graphs_in_use=graphs_in_use,
        )


@dataclass(frozen=True)
class Expected:
    """What must run. Fields that are None are not checked.

    ``release`` is compared argument by argument. ``graphs`` only warns: an engine that falls back to eager is right.
    """

    release: Release | None = None
    invocation: str | None = None
    n_restarts: int | None = None
    schedulers: int | None = None
    model_id: str | None = None
    graphs: bool | None = None


def check(facts: Facts, expected: Expected) -> CheckResult:
    """The verdict: the first fact that is not as expected fails, an unreadable argv is inconclusive."""
    wrong = _wrong(facts, expected)
    if wrong is not None:
        text, cause = wrong
        return CheckResult(NAME, Verdict.FAIL, text, cause=cause)
    if expected.release is not None and facts.argv is None:
        return CheckResult(
            NAME, Verdict.INCONCLUSIVE, "the running process could not be read", cause="gate_inconclusive"
        )
    said = "argv, environment, unit and schedulers are as asked for"
    if expected.graphs and facts.graphs_in_use is False:
        said += "; warning: CUDA graphs are not in use although the profile asks for them"
    return CheckResult(NAME, Verdict.PASS, said)


def _wrong(facts: Facts, expected: Expected) -> tuple[str, str] | None:
    if facts.active_state is not None and facts.active_state != "active":
        return f"the unit is {facts.active_state}, not active", "engine_dead"
    if expected.invocation is not None and facts.invocation not in {None, expected.invocation}:
        return "the unit was started again: its invocation is not the one under test", "engine_dead"
    if expected.n_restarts is not None and facts.n_restarts is not None and facts.n_restarts > expected.n_restarts:
        return "systemd restarted the unit by itself", "engine_dead"
    if expected.release is not None and facts.argv is not None:
        text = _argv_differs(facts, expected.release) or _env_differs(facts, expected.release)
        if text is not None:
            return text, "drift"
    if expected.schedulers is not None and facts.schedulers_alive is not None:
        missing = expected.schedulers - facts.schedulers_alive
        if missing > 0:
            return f"{missing} of {expected.schedulers} scheduler processes are not alive", "engine_dead"
    if expected.model_id is not None and facts.model_id not in {None, expected.model_id}:
        return f"the service answers as model {facts.model_id}, stable as {expected.model_id}", "wrong_output"
    return None


def _argv_differs(facts: Facts, release: Release) -> str | None:
    if facts.argv is None or facts.argv == release.argv:
        return None
    for at, (runs, asked) in enumerate(zip(facts.argv, release.argv, strict=False)):
        if runs != asked:
            return f"argument {at} of the running process is {runs!r}, the release says {asked!r}"
    return f"the running process has {len(facts.argv)} arguments, the release {len(release.argv)}"


def _env_differs(facts: Facts, release: Release) -> str | None:
    if facts.env_ok is True:
        return None
    for name, value in release.env_set.items():
        if name in facts.env and facts.env[name] != value:
            runs = facts.env[name]
            return f"{name} is {'not set' if runs is None else 'another value'} in the running process"
    for name in release.env_unset:
        if name not in release.env_set and facts.env.get(name) is not None:
            return f"{name} is set in the running process, the release unsets it"
    if facts.env_ok is False:
        return "the running environment is not what the release sets and unsets"
    return None
