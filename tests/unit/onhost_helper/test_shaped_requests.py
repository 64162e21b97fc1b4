"""The helper against requests that are as its schema wants them and mean harm, on an adopted host in every phase."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddtune.onhost import helper
from tests.unit.onhost_helper import shapes
from tests.unit.onhost_helper.ground import OTHER, Ground, Tree, ground, read_only
from tests.unit.onhost_helper.host import UNIT, Host

pytestmark = pytest.mark.timeout(900)
LONG = bool(os.environ.get("DDTUNE_TEST_LONG"))
EXAMPLES = 300 if LONG else 10
PHASES = ("adopted", "armed", "swapped", "ready", "soak", "failed", "aborted", "installed")
QUIET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
# Where a verb has most to do.
_MOSTLY = {
    "adopt": ("installed",) * 16,
    "can_adopt": ("installed",) * 16,
    "confirm": ("soak",) * 4,
    "lift": ("ready",) * 4,
}
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]*")
_RULES = re.compile(r"[A-Za-z0-9_ {}@\";:.,/\n-]*")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    host = Host(tmp_path_factory.mktemp("shaped") / "root")
    try:
        with ground(host) as made:
            yield made
            passed, tried = (sum(column) for column in zip((0, 0), *made.shares, strict=True))
            assert passed >= tried / 2, f"{passed} of {tried} requests passed the schema"
    finally:
        host.end()


@pytest.fixture(scope="module")
def frozen(place: Ground) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a folder read-only")
    with read_only(place.host.root) as within:
        yield within


def _whole(answer: dict[str, Any], beside: str) -> None:
    """One of the two shapes, no bug of ours, and no value of the host's secrets."""
    assert answer["proto"] == 1
    assert answer["ok"] is True or {"cause", "message", "detail"} <= set(answer), answer
    assert "bug" not in str(answer.get("message")), answer
    assert "Traceback" not in f"{answer}{beside}", answer


def _literal(place: Ground, request: Any) -> None:
    """What was asked reaches a command line as one word of its own or not at all, and is never an option there."""
    sent = {text for text in shapes.texts_of(request) if len(text) > 1 and not _PLAIN.fullmatch(text)}
    options = {text for text in shapes.texts_of(request) if text.startswith("-")} - place.usual
    for argv in place.argvs:
        for word in argv:
            # The programs that are run by an interpreter's -c are constants.
            if "\n" not in word or word in sent:
                assert word in sent or not any(text in word for text in sent), (argv, word)
            assert word not in options, (argv, word)
    for text in place.given:
        assert _RULES.fullmatch(text), text


def _enough(verb: str, passed: list[bool]) -> None:
    """Only what passes the schema tries the verb itself. Of few examples more may be spoilt by chance."""
    share = 1 / 2 if LONG and len(shapes.verb_fields(verb)) > 1 else 1 / 4
    assert sum(passed) >= max(1, share * len(passed)), f"{sum(passed)} of {len(passed)} requests passed the schema"


def _may_change(verb: str, path: str, unit: str) -> bool:
    """Whether ``path`` is the helper's own to change for this verb and unit."""
    folders = tuple(f"{top}/{unit}" for top in ("var/lib/ddtune", "run/ddtune"))
    if path in folders or path.startswith(tuple(f"{folder}/" for folder in folders)):
        return True
    if verb not in ("adopt", "unadopt"):
        return False
    own = (f"etc/systemd/system/{unit}.d", "etc/systemd/system/ddtune-ended@.service", "etc/sudoers.d/ddtune")
    return path.startswith((*own, "usr/local", "var/lib", "run")) and not path.startswith(f"var/lib/ddtune/{OTHER}")


def _changed(before: Tree, after: Tree) -> list[str]:
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


@pytest.mark.parametrize("verb", sorted(helper.VERBS))
def test_a_request_that_means_harm_changes_only_what_is_ours(place: Ground, verb: str) -> None:
    passed: list[bool] = []

    @QUIET
    @given(
        phase=st.sampled_from((*PHASES, *_MOSTLY.get(verb, ()))),
        first=shapes.requests(verb),
        second=st.sampled_from(sorted(helper.VERBS)).flatmap(shapes.requests),
    )
    def attack(phase: str, first: dict[str, Any], second: dict[str, Any]) -> None:
        place.enter(phase)
        for number, drawn in enumerate((first, second)):
            request = place.placed(drawn)
            before, _ = place.read()
            answer, beside = place.ask(request)
            if not number:
                passed.append(place.passed)
            _whole(answer, beside)
            _literal(place, request)
            unit = request["unit"] if isinstance(request["unit"], str) else ""
            changed = _changed(before, place.read()[0])
            assert [path for path in changed if not _may_change(request["verb"], path, unit)] == [], request
            place.check_kept()

    attack()
    _enough(verb, passed)
    place.shares.append((sum(passed), len(passed)))


@pytest.mark.parametrize("verb", sorted(helper.READING))
def test_a_viewer_changes_nothing_whatever_is_asked(place: Ground, verb: str) -> None:
    passed: list[bool] = []

    @QUIET
    @given(phase=st.sampled_from(PHASES), drawn=shapes.requests(verb))
    def look(phase: str, drawn: dict[str, Any]) -> None:
        place.enter(phase)
        request, before = place.placed(drawn), place.read()
        answer, beside = place.ask(request, reading=True)
        passed.append(place.passed)
        _whole(answer, beside)
        _literal(place, request)
        assert place.read() == before
        assert not any(word in ("start", "stop", "restart", "kill") for argv in place.argvs for word in argv[1:])

    look()
    _enough(verb, passed)


def test_a_viewer_has_no_other_verb(place: Ground) -> None:
    @settings(QUIET, max_examples=EXAMPLES * 5)
    @given(
        phase=st.sampled_from(PHASES),
        drawn=st.sampled_from(sorted(set(helper.VERBS) - helper.READING)).flatmap(shapes.requests),
    )
    def try_(phase: str, drawn: dict[str, Any]) -> None:
        place.enter(phase)
        request, before = place.placed(drawn), place.read()
        answer, beside = place.ask(request, reading=True)
        _whole(answer, beside)
        assert answer["ok"] is False
        assert place.read() == before
        assert place.argvs == []

    try_()


def test_a_read_only_host_answers_and_stays_as_it_is(place: Ground, frozen: Callable[[Callable[[], Any]], Any]) -> None:
    @settings(QUIET, max_examples=EXAMPLES * 12)
    @given(phase=st.sampled_from(PHASES), drawn=st.sampled_from(sorted(helper.VERBS)).flatmap(shapes.requests))
    def try_(phase: str, drawn: dict[str, Any]) -> None:
        place.enter(phase)
        request, before = place.placed(drawn), place.read()
        _whole(*frozen(lambda: place.ask(request)))
        assert place.read() == before

    try_()


def test_what_is_asked_for_another_unit_stays_there(place: Ground) -> None:
    """The ground itself: a good request does change something, and only where it may."""
    place.enter("adopted")
    before, _ = place.read()
    answer, _ = place.ask({"proto": 1, "verb": "record", "unit": OTHER, "entry": {"op": "x"}})
    assert answer["ok"], answer
    changed = _changed(before, place.read()[0])
    assert f"var/lib/ddtune/{OTHER}/envelope.jsonl" in changed
    assert all(_may_change("record", path, OTHER) for path in changed)
    assert not any(_may_change("record", path, UNIT) for path in changed)
