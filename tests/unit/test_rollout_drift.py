"""What a watch makes of many readings and canaries: told, taken back, or noise."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from ddtune.gate.sequential import LEAST_WINDOWS, WINDOW_S
from ddtune.live.snapshot import Ages, Link, ServiceReading, Snapshot
from ddtune.rollout import drift
from ddtune.rollout.drift import Watched
from ddtune.rollout.sights import Sight, action, of_sight

SEED = random.SystemRandom().randrange(10**9)
SERVING = Snapshot(
    "b300",
    0.0,
    Link("up"),
    service=ServiceReading(health="serving", running=12, accept_length=4.48, release="r1"),
    ages=Ages(engine=0.3),
)


class Service:
    """Readings twice a second of a service whose accept length is ``length`` now."""

    def __init__(self, length: Callable[[], float]) -> None:
        self.length = length
        self.now = 1000.0
        self.seen = Watched()
        self.shown = SERVING
        self.found: list[Sight] = []

    def learns(self) -> Service:
        """Until it is known what is usual: chance may make that take some rounds."""
        while self.seen.traffic.usual is None and self.now < 10 * 3600:
            self.runs(60)
        return self

    def runs(self, seconds: float) -> Service:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            reading = replace(self.shown.service, accept_length=self.length())
            self.seen, sight = drift.read(self.seen, replace(self.shown, at=self.now, service=reading))
            self.found += [sight] if sight else []
        return self


def noise(mean: float, spread: float = 0.3) -> Callable[[], float]:
    rng = random.Random(SEED)
    return lambda: rng.gauss(mean, spread)


def test_noise_is_not_told() -> None:
    print(f"seed {SEED}")
    service = Service(noise(4.48)).learns().runs(3 * 3600)
    assert service.seen.traffic.usual is not None
    assert service.found == []


def test_a_fall_is_told_once_with_both_numbers_and_nothing_is_taken_back() -> None:
    print(f"seed {SEED}")
    service = Service(noise(4.48)).learns().runs(20 * 60)
    service.length = noise(3.6)
    before, windows = service.now, service.seen.traffic.merged
    service.runs(30 * 60 * windows)
    assert [sight.cause for sight in service.found] == ["drift"]
    (told,) = service.found
    assert told.at - before < 40 * 1.1 * WINDOW_S * windows
    was, now = (float(number) for number in re.findall(r"\d\.\d\d", told.text))
    assert was == pytest.approx(4.48, abs=0.06)
    assert 3.5 < now < 4.3
    assert "mix may have changed" in told.text
    assert action("drift", "probation", "b8-nvls", None, 0.0) is None
    notice = of_sight("b300", told, None)
    assert notice.title == "b300: drift"
    assert "a person must look" in notice.body


def test_the_new_level_is_usual_from_then_on() -> None:
    print(f"seed {SEED}")
    service = Service(noise(4.48)).learns()
    service.length = noise(3.6)
    service.runs(4 * 3600)
    assert len(service.found) == 1


def test_a_change_that_matters_to_nobody_is_seen_and_not_told() -> None:
    print(f"seed {SEED}")
    service = Service(noise(4.48, 0.1)).learns()
    service.length = noise(4.48 * 0.97, 0.1)
    service.runs(1200 * service.seen.traffic.merged)
    assert service.seen.traffic.drifted is not None
    assert service.found == []


def test_no_draft_accepted_any_more_is_a_fault_after_three_windows() -> None:
    service = Service(noise(4.48)).runs(60)
    service.length = lambda: 1.0
    service.runs(5 * WINDOW_S)
    assert service.found[0].cause == "accept_collapse"
    assert action("accept_collapse", "probation", "b8-nvls", None, 0.0) == "rollback"
    service.seen = drift.acted(service.seen)
    told = len(service.found)
    assert all(sight.cause != "accept_collapse" for sight in service.runs(600).found[told:]), "told, and acted on, once"


def test_a_service_that_never_accepted_a_draft_is_not_restarted_for_it() -> None:
    assert Service(lambda: 1.0).runs(600).found == []


@pytest.mark.parametrize(
    "shown",
    [
        replace(SERVING, link=Link("lost")),
        replace(SERVING, ages=Ages(engine=9.0)),
        replace(SERVING, txn={"op": "0001", "state": "TRIAL"}),
        replace(SERVING, service=replace(SERVING.service, running=0)),
        replace(SERVING, service=replace(SERVING.service, release=None)),
    ],
    ids=["no link", "an old reading", "a trial", "nothing runs", "what runs is unknown"],
)
def test_what_says_nothing_of_the_release_is_not_counted(shown: Snapshot) -> None:
    service = Service(lambda: 1.0)
    service.shown = shown
    assert service.runs(100).seen == Watched()


def test_another_release_has_another_usual_and_a_restart_has_not() -> None:
    print(f"seed {SEED}")
    service = Service(noise(4.48)).learns()
    service.shown = replace(SERVING, service=replace(SERVING.service, invocation="b" * 32))
    assert service.runs(60).seen.traffic.usual is not None
    service.shown = replace(SERVING, service=replace(SERVING.service, release="r2"))
    service.length = noise(3.0)
    assert service.runs(30 * 60).found == []


def canaries(seen: Watched, causes: list[str | None], length: Callable[[], float]) -> tuple[Watched, list[Sight]]:
    found = []
    for at, cause in enumerate(causes):
        sight = Sight(float(at), cause, "doubled words." if cause else "answered rightly", None if cause else length())
        seen, told = drift.looked(seen, "r1", [sight])
        found += [told] if told else []
    return seen, found


def test_one_wrong_canary_in_fifty_is_noise_and_one_in_three_a_fault_though_never_two_in_a_row() -> None:
    print(f"seed {SEED}")
    seen, found = canaries(Watched(), [*[None] * 49, "wrong_output"] * 12, noise(4.4))
    assert found == []
    _, found = canaries(seen, [None, None, "garbage_output"] * 45, noise(4.4))
    assert found
    assert found[0].cause == "garbage_output"
    assert "canaries were answered wrongly" in found[0].text
    assert found[0].at < 3 * 45


def test_canaries_that_wait_behind_others_are_no_signs() -> None:
    assert canaries(Watched(), ["slow", "link_lost", "hang"] * 30, noise(4.4))[1] == []


def test_drafts_of_our_own_prompts_tell_of_the_engine() -> None:
    print(f"seed {SEED}")
    seen, usual = Watched(), noise(4.4)
    while seen.own.usual is None:
        seen, found = canaries(seen, [None] * LEAST_WINDOWS, usual)
        assert found == []
    _, found = canaries(seen, [None] * (40 * seen.own.merged), noise(3.4))
    assert found[0].cause == "drift"
    assert "not the traffic" in found[0].text
