from __future__ import annotations

import tomllib

import pytest

from ddtune.profiles.axes import axes_of
from ddtune.profiles.model import AxisValue, Base, Dialect, Profile
from ddtune.profiles.resolve import resolve
from ddtune.profiles.schema import DialectFile
from ddtune.profiles.site import draft_dialect, recheck
from tests.unit.test_profiles_dialects import base, known
from tests.unit.test_profiles_resolve import ARGV, DDTREE, DIALECTS

BUILD = "0.5.23+abcd1234"
FLAGS = known("ddtree-pr29907") | {"--speculative-draft-model-path"}
LINE = (
    "py -m sglang.launch_server --speculative-algorithm TREE-2 --speculative-draft-model-path /d "
    "--speculative-dflash-tree-width 4 --speculative-fast --speculative-pair 1 2 --x {}"
)
FORK = tuple(LINE.split())
FORK_FLAGS = FLAGS | {"--speculative-dflash-tree-width", "--speculative-fast", "--speculative-pair", "--x"}


def site(text: str, parent: Dialect) -> Dialect:
    return DialectFile.model_validate(tomllib.loads(text)).dialect("site", parent)


def fork() -> Dialect:
    return site(draft_dialect(FORK, {}, FORK_FLAGS, BUILD, DIALECTS["none"]), DIALECTS["none"])


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"none"}))
def test_a_known_build_needs_nothing_of_its_own(name: str) -> None:
    parent, running = DIALECTS[name], base(name).argv
    text = draft_dialect(running, {}, known(name), BUILD, parent)
    drafted = site(text, parent)
    assert drafted.build == BUILD
    assert (drafted.axes, drafted.spec_flags) == (parent.axes, parent.spec_flags)
    for axis, value in axes_of(running, {}, parent).items():
        assert f"#   {axis} = " in text, value


def test_a_draft_is_never_picked_for_another_host() -> None:
    from ddtune.profiles.dialects import pick_dialect

    assert pick_dialect(FORK_FLAGS, {"none": DIALECTS["none"], "site": fork()}, FORK).name == "none"


def test_an_unknown_engine_gets_axes_of_what_runs() -> None:
    dialect = fork()
    read = axes_of(FORK, {}, dialect)
    wanted: dict[str, AxisValue] = {"algorithm": "tree_2", "dflash_tree_width": 4, "fast": True}
    assert wanted.items() <= read.items()
    release = resolve(Base(FORK, "/"), Profile("p", {**wanted, "dflash_tree_width": 8, "fast": False}), dialect)
    assert release.argv == tuple(" ".join(FORK).replace("width 4 --speculative-fast", "width 8").split())
    none = resolve(Base(FORK, "/"), Profile("p", {"algorithm": "none"}), dialect)
    assert none.argv == ("py", "-m", "sglang.launch_server", "--x", "{}")
    assert resolve(Base(none.argv, "/"), Profile("p", {"algorithm": "tree_2"}), dialect).argv[-1] == "TREE-2"


def test_a_name_that_is_taken_is_not_taken_over() -> None:
    running = (*ARGV, "--speculative-topk", "3")
    dialect = site(draft_dialect(running, {}, FLAGS | {"--speculative-topk"}, BUILD, DDTREE), DDTREE)
    assert dialect.axes["topk"] == DDTREE.axes["topk"]
    assert axes_of(running, {}, dialect)["topk_here"] == 3


def test_an_abbreviation_is_no_flag_of_the_builds_own() -> None:
    running = (*ARGV, "--speculative-ddtree-bud", "3")
    text = draft_dialect(running, {}, FLAGS, BUILD, DDTREE)
    assert "ddtree-bud" not in text


def test_text_of_the_host_stays_text() -> None:
    running = ("py", "--speculative-odd", 'a"]\n[axes.budget]', "--speculative-algorithm", 'X"\\')
    dialect = site(draft_dialect(running, {}, (), 'b"\n', DDTREE), DDTREE)
    assert dialect.build == 'b"\n'
    assert dialect.axes["budget"] == DDTREE.axes["budget"]
    assert dialect.axes["algorithm"].values["x"].args == ("--speculative-algorithm", 'X"\\')


def test_the_same_build_is_not_looked_at_again() -> None:
    assert recheck(fork(), BUILD, FORK_FLAGS - {"--speculative-fast"}) == []
    assert recheck(fork(), "new", ()) == []
    assert recheck(DDTREE, "new", FLAGS) == []


def test_another_build_is_looked_at() -> None:
    (fine,) = recheck(fork(), "0.5.24+ffff0000", FORK_FLAGS)
    assert not fine.blocks
    assert "still writes and drops all that it knows" in fine.text
    (changed,) = recheck(fork(), "0.5.24+ffff0000", (FORK_FLAGS | {"--speculative-new"}) - {"--speculative-fast"})
    assert changed.cause == "drift"
    assert "the engine is now 0.5.24+ffff0000" in changed.text
    assert f"on {BUILD}" in changed.text
    assert "cannot write fast (no --speculative-fast)" in changed.text
    assert "would leave --speculative-new in place without speculation" in changed.text
    assert 'set build = "0.5.24+ffff0000" in it' in changed.text


def test_a_build_that_left_its_dialect_blocks() -> None:
    (gone,) = recheck(DDTREE, "new", FLAGS - {"--speculative-ddtree-budget"}, drafted_on="old")
    assert gone.blocks
    assert "no longer fits, for the build has no --speculative-ddtree-budget" in gone.text
    assert "cannot write budget (no --speculative-ddtree-budget)" in gone.text


def test_one_of_two_spellings_is_enough() -> None:
    (fine,) = recheck(DDTREE, "new", FLAGS - {"--speculative-draft-window-size"}, drafted_on="old")
    assert "draft_window" not in fine.text
    (gone,) = recheck(
        DDTREE, "new", FLAGS - {"--speculative-draft-window-size", "--speculative-dflash-draft-window-size"}, "old"
    )
    assert "cannot write draft_window (no --speculative-draft-window-size or" in gone.text
