"""Each dialect on command lines: what an axis is written as, read back from, and dropped by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddtune.profiles.argv import flags_in, pieces
from ddtune.profiles.axes import axes_of, speculative_axes
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.fit import fit, home
from ddtune.profiles.lint import lint
from ddtune.profiles.model import AxisValue, Base, Dialect, Profile, settings_of
from ddtune.profiles.resolve import resolve
from tests.unit.test_profiles_resolve import BASE, DIALECTS, PROFILES

SPECULATING = sorted(set(DIALECTS) - {"none"})
HEAD = "py -m sglang.launch_server --model-path /m --tp-size 8"
# What each dialect's own build runs before anything is changed.
RUNNING = {
    "ddtree-pr29907": "--speculative-algorithm DDTREE --speculative-draft-model-path /d --speculative-ddtree-budget 8",
    "ddtree-dbguo": (
        "--speculative-algorithm DFLASH --speculative-draft-model-path /d --speculative-dflash-enable-ddtree "
        "--speculative-num-draft-tokens 9 --speculative-dflash-block-size 8"
    ),
    "dflash-chain": (
        "--speculative-algorithm DFLASH --speculative-draft-model-path /d --speculative-dflash-block-size 8"
    ),
    "ngram": "--speculative-algorithm NGRAM --speculative-num-draft-tokens 16 --speculative-ngram-capacity 1000",
    "eagle3": (
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-num-steps 3 "
        "--speculative-eagle-topk 4 --speculative-num-draft-tokens 16"
    ),
}
OLD = frozenset(("--speculative-dflash-draft-window-size", "--cuda-graph-max-bs"))
NEW = frozenset(("--speculative-draft-window-size", "--cuda-graph-max-bs-decode"))


def base(name: str) -> Base:
    words = f"{HEAD} {RUNNING[name]} --mem-fraction-static 0.85 --json-model-override-args".split()
    return Base((*words, '{"a": 1}'), "/")


def argv(name: str, **axes: AxisValue) -> str:
    """What is speculative in a release of ``axes``, as one line."""
    release = resolve(base(name), Profile("p", axes), DIALECTS[name])
    return " ".join(token for piece in pieces(release.argv) if "--spec" in (piece.flag or "") for token in piece.tokens)


def known(name: str) -> frozenset[str]:
    """Every flag that the dialect writes: a build of it that has old and new spellings."""
    found = [flags_in(setting.args) for axis in DIALECTS[name].axes.values() for setting in settings_of(axis)]
    return frozenset().union(*found)


@pytest.mark.parametrize("name", SPECULATING)
def test_no_speculation_leaves_nothing_of_it_and_all_else(name: str) -> None:
    release = resolve(base(name), PROFILES["ar"], DIALECTS[name])
    foreign = [*HEAD.split(), "--mem-fraction-static", "0.85", "--json-model-override-args", '{"a": 1}']
    assert list(release.argv) == [*foreign, "--enable-nccl-nvls", "--max-running-requests", "128"]
    assert axes_of(release.argv, release.env_set, DIALECTS[name])["algorithm"] == "none"
    assert set(DIALECTS[name].spec_env) <= set(release.env_unset)


@pytest.mark.parametrize("name", SPECULATING)
def test_the_build_is_known_by_what_it_runs(name: str) -> None:
    from ddtune.profiles.dialects import pick_dialect

    running = base(name).argv
    assert pick_dialect(flags_in(running), DIALECTS, running).name == name


def test_k8_11_one_budget_has_many_spellings() -> None:
    """K8-11: the tree's nodes, a tree of the fork, and the chain's rows are four flags and two counts."""
    assert "--speculative-ddtree-budget 16" in argv("ddtree-pr29907", budget=16)
    assert "--speculative-num-draft-tokens 17" in argv("ddtree-dbguo", budget=16)
    assert "--speculative-dflash-block-size 16" in argv("dflash-chain", draft_tokens=16)
    assert "--speculative-num-draft-tokens 32" in argv("ngram", draft_tokens=32)
    for name in ("ddtree-pr29907", "ddtree-dbguo"):
        assert axes_of(base(name).argv, {}, DIALECTS[name])["budget"] == 8


def test_k8_11_a_spelling_of_ones_own_is_a_file() -> None:
    """K8-11: a build that spells the budget as a width and a variable needs data and no code."""
    from ddtune.profiles.schema import DialectFile

    file = DialectFile.model_validate(
        {
            "extends": "none",
            "match": {"flags": ["--speculative-dflash-tree-width"]},
            "speculative": {"flags": ["--speculative-dflash-tree-width"], "env": ["SGLANG_DFLASH_MAX_NUM_NODES"]},
            "axes": {
                "algorithm": {"ddtree": {"args": ["--speculative-algorithm", "DFLASH"]}},
                "budget": {"env": {"SGLANG_DFLASH_MAX_NUM_NODES": "{value}"}},
                "topk": {"args": ["--speculative-dflash-tree-width", "{value}"]},
            },
        }
    )
    dialect = file.dialect("mine", DIALECTS["none"])
    release = resolve(base("dflash-chain"), Profile("p", {"algorithm": "ddtree", "budget": 30, "topk": 4}), dialect)
    assert release.argv[-2:] == ("--speculative-dflash-tree-width", "4")
    assert release.env_set == {"SGLANG_DFLASH_MAX_NUM_NODES": "30"}
    assert axes_of(release.argv, release.env_set, dialect)["budget"] == 30


def test_k8_11_the_build_is_asked_before_anything_stops() -> None:
    """K8-11: a flag that the installed engine lacks is a refusal, where the engine would end with status 2."""
    found = lint(PROFILES["b16"], DIALECTS["ddtree-pr29907"], ("--speculative-algorithm", "--disable-cuda-graph"), BASE)
    refused = [remark for remark in found if remark.blocks]
    assert refused
    assert "--speculative-ddtree-budget" in refused[0].text


def test_a_tree_and_its_chain_on_the_fork() -> None:
    chain = argv("ddtree-dbguo", algorithm="dflash")
    assert chain == "--speculative-algorithm DFLASH --speculative-draft-model-path /d --speculative-dflash-block-size 8"
    back = resolve(Base(tuple(f"py {chain}".split()), "/"), PROFILES["pcie-b32"], DIALECTS["ddtree-dbguo"])
    assert " ".join(back.argv).endswith(
        "--speculative-dflash-block-size 8 --speculative-dflash-enable-ddtree --speculative-num-draft-tokens 33"
    )
    assert axes_of(back.argv, back.env_set, DIALECTS["ddtree-dbguo"])["algorithm"] == "ddtree"


def test_the_chain_of_a_tree_build_keeps_only_the_drafter() -> None:
    running = base("ddtree-pr29907")
    rows = Base((*running.argv, "--speculative-num-draft-tokens", "9"), "/")
    release = resolve(rows, PROFILES["chain"], DIALECTS["ddtree-pr29907"])
    assert [flag for flag in sorted(flags_in(release.argv)) if "speculative" in flag] == [
        "--speculative-algorithm",
        "--speculative-draft-model-path",
        "--speculative-draft-window-size",
    ]
    assert "SGLANG_DDTREE_MAX_TOPK" in release.env_unset


def test_the_chains_rows_are_one_knob_of_two_flags() -> None:
    assert argv("dflash-chain", draft_tokens=4).endswith("--speculative-dflash-block-size 4")
    both = Base((*base("dflash-chain").argv, "--speculative-num-draft-tokens", "8"), "/")
    release = resolve(both, Profile("p", {"draft_tokens": 4}), DIALECTS["dflash-chain"], known("dflash-chain"))
    assert flags_in(release.argv) & {"--speculative-dflash-block-size", "--speculative-num-draft-tokens"} == {
        "--speculative-num-draft-tokens"
    }


@pytest.mark.parametrize("name", ["ddtree-pr29907", "ddtree-dbguo", "dflash-chain", "eagle3"])
@pytest.mark.parametrize(
    ("lacking", "window", "graphs"),
    [
        (NEW, "--speculative-dflash-draft-window-size", "--cuda-graph-max-bs"),
        (OLD, "--speculative-draft-window-size", "--cuda-graph-max-bs-decode"),
    ],
)
def test_spellings_follow_the_version(name: str, lacking: frozenset[str], window: str, graphs: str) -> None:
    profile = Profile("p", {"draft_window": 64, "graph_max_batch": 32})
    release = resolve(base(name), profile, DIALECTS[name], known(name) - lacking)
    assert release.argv[-4:] == (window, "64", graphs, "32")
    assert axes_of(release.argv, {}, DIALECTS[name])["draft_window"] == 64
    moved = resolve(Base(release.argv, "/"), profile, DIALECTS[name], known(name) - (OLD if lacking == NEW else NEW))
    assert not flags_in(moved.argv) & {window, graphs}
    assert axes_of(moved.argv, {}, DIALECTS[name])["draft_window"] == 64


def test_a_count_is_a_whole_number() -> None:
    with pytest.raises(UnsupportedAxis, match="budget cannot be written: eight is not a whole number"):
        resolve(base("ddtree-dbguo"), Profile("p", {"budget": "eight"}), DIALECTS["ddtree-dbguo"])
    assert "budget" not in axes_of(("py", "--speculative-num-draft-tokens", "x"), {}, DIALECTS["ddtree-dbguo"])


def test_rules_of_one_tree_are_not_those_of_the_other() -> None:
    paged = Base((*base("ddtree-dbguo").argv, "--page-size", "256"), "/")
    (clients,) = lint(PROFILES["pcie-b32"], DIALECTS["ddtree-dbguo"], None, paged)
    assert "refuses requests for logprobs" in clients.text
    found = lint(PROFILES["pcie-b32"], DIALECTS["ddtree-pr29907"], None, paged)
    assert "ddtree needs --page-size 1, not 256" in [remark.text for remark in found]


def test_which_profiles_fit() -> None:
    fits = {name: fit(one, DIALECTS["ngram"], DIALECTS) for name, one in PROFILES.items()}
    assert {name for name, one in fits.items() if one.fits} == {
        *("ar", "pcie-ar", "ngram8", "ngram16", "ngram32", "ngram16-eager")
    }
    why = fits["b16"].why_not
    assert why is not None
    assert "algorithm = ddtree" in why
    assert why.endswith("(of dialect ddtree-pr29907)")
    assert fits["chain"].dialects == ("ddtree-dbguo", "ddtree-pr29907", "dflash-chain")
    assert home(PROFILES["ngram8"], DIALECTS["ddtree-pr29907"], DIALECTS).name == "ngram"
    assert home(PROFILES["chain"], DIALECTS["ddtree-pr29907"], DIALECTS).name == "ddtree-pr29907"
    lacking = fit(PROFILES["ngram8"], DIALECTS["ngram"], DIALECTS, ("--port",))
    assert (lacking.why_not or "").endswith("it has no --speculative-algorithm")


def _values(dialect: Dialect, name: str) -> st.SearchStrategy[AxisValue]:
    axis = dialect.axes[name]
    if axis.values:
        return st.sampled_from([key == "true" if key in ("true", "false") else key for key in axis.values])
    return st.integers(1, 99)


_FOREIGN = st.lists(
    st.sampled_from([("--aa",), ("--bb", "1", "2"), ("-f", "x y"), ("--cc={}",), ("--speculative-x", "3")]), max_size=5
)


@given(st.data(), st.sampled_from(SPECULATING), _FOREIGN, st.booleans())
def test_what_is_asked_is_read_back_and_the_rest_stays(
    data: st.DataObject, name: str, foreign: list[tuple[str, ...]], running: bool
) -> None:
    dialect = DIALECTS[name]
    asked: dict[str, AxisValue] = data.draw(
        st.fixed_dictionaries({}, optional={axis: _values(dialect, axis) for axis in dialect.axes})
    )
    if asked.get("symm_mem") is True:
        asked.pop("nvls", None)
    if asked.get("algorithm", "ddtree") == "dflash":
        asked.pop("budget", None)
    words = [*HEAD.split(), *(RUNNING[name].split() if running else ()), *(word for one in foreign for word in one)]
    release = resolve(Base(tuple(words), "/"), Profile("p", asked), dialect)
    assert resolve(Base(release.argv, "/"), Profile("p", asked), dialect) == release
    read = axes_of(release.argv, release.env_set, dialect)
    silent = speculative_axes(dialect) if read["algorithm"] == "none" else ()
    assert {axis: read.get(axis) for axis in asked if axis not in silent} == {
        axis: value for axis, value in asked.items() if axis not in silent
    }
    kept = [piece.tokens for piece in pieces(release.argv) if piece.tokens in foreign]
    assert kept == foreign
