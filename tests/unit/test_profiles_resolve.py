from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddtune.onhost.redact import is_secret
from ddtune.profiles.argv import is_flag, join, pieces
from ddtune.profiles.axes import axes_of
from ddtune.profiles.dialects import load_dialects
from ddtune.profiles.diff import diff
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.model import AxisValue, Base, Dialect, Profile, Release
from ddtune.profiles.resolve import resolve
from ddtune.profiles.store import load_profiles

with pytest.MonkeyPatch.context() as patched:
    # The shipped files alone, whatever this user has.
    patched.setenv("DDTUNE_CONFIG", "/nonexistent/config.toml")
    PROFILES, DIALECTS = load_profiles(), load_dialects()
DDTREE = DIALECTS["ddtree-pr29907"]
TEXT = (
    "/opt/py -m sglang.launch_server --model-path /models/Kimi-K2.6 --trust-remote-code --tp-size 8 --host 127.0.0.1 "
    "--port 30000 --enable-metrics --attention-backend triton --page-size 1 --speculative-algorithm DDTREE "
    "--speculative-draft-model-path /models/Kimi-K2.6-DFlash --speculative-ddtree-budget 8 "
    "--speculative-draft-window-size 2048 --enable-nccl-nvls --max-running-requests 128 "
    "--mem-fraction-static 0.85"
)


ARGV = tuple(TEXT.split())
BASE = Base(ARGV, "/srv")


def axes(**values: AxisValue) -> Profile:
    return Profile("p", values)


def words(text: str) -> Base:
    return Base(tuple(text.split()), "/")


def again(release: Release) -> Base:
    return Base(release.argv, release.cwd)


def test_production_on_what_runs_is_the_same_argv() -> None:
    release = resolve(BASE, PROFILES["b8-nvls"], DDTREE)
    assert release.argv == ARGV
    assert release.env_set == {"SGLANG_DDTREE_MAX_TOPK": "4"}
    assert release.env_unset == ("NCCL_NVLS_ENABLE",)
    assert release.cwd == "/srv"


def test_a_budget_is_replaced_in_its_place() -> None:
    release = resolve(BASE, PROFILES["b12"], DDTREE)
    at = ARGV.index("--speculative-ddtree-budget")
    assert release.argv == (*ARGV[: at + 1], "12", *ARGV[at + 2 :])


def test_graphs_off_is_added_at_the_end_and_taken_out_again() -> None:
    eager = resolve(BASE, PROFILES["b16-eager"], DDTREE)
    assert eager.argv[-1] == "--disable-cuda-graph"
    assert "--disable-cuda-graph" not in resolve(again(eager), PROFILES["b16"], DDTREE).argv


def test_no_speculation_drops_all_that_is_speculative() -> None:
    release = resolve(BASE, PROFILES["ar"], DDTREE)
    begin, end = ARGV.index("--speculative-algorithm"), ARGV.index("--enable-nccl-nvls")
    assert release.argv == ARGV[:begin] + ARGV[end:]
    assert set(DDTREE.spec_env) <= set(release.env_unset)
    assert release.env_set == {}


def test_no_speculation_wins_over_speculative_axes() -> None:
    release = resolve(BASE, axes(algorithm="none", budget=8, topk=4, draft_window=64), DDTREE)
    assert not [token for token in release.argv if "speculative" in token]
    assert release.env_set == {}


def test_nvls_is_a_flag_and_a_variable() -> None:
    off = resolve(words("py -m sglang --enable-symm-mem --enable-nccl-nvls --port 1"), axes(nvls=False), DDTREE)
    assert off.argv == ("py", "-m", "sglang", "--port", "1")
    assert off.env_set == {"NCCL_NVLS_ENABLE": "0"}
    on = resolve(words("py -m sglang --enable-symm-mem"), axes(nvls=True), DDTREE)
    assert on.argv == ("py", "-m", "sglang", "--enable-symm-mem", "--enable-nccl-nvls")
    assert on.env_unset == ("NCCL_NVLS_ENABLE",)


def test_both_ways_to_write_a_value_and_only_exact_spellings() -> None:
    base = words("py --speculative-ddtree-budget=8 --speculative-ddtree 9 --speculative-ddtree-budget 7 --x")
    release = resolve(base, axes(budget=12), DDTREE)
    assert release.argv == words("py --speculative-ddtree-budget 12 --speculative-ddtree 9 --x").argv


def test_a_flag_of_several_values_goes_as_a_whole() -> None:
    base = words(
        "py --cuda-graph-max-bs-decode 8 --cuda-graph-bs-decode 1 2 4 --x -1 --cuda-graph-backend-decode full y"
    )
    release = resolve(base, Profile("p", {"graphs": True}, args=("--cuda-graph-bs-decode", "1", "8")), DDTREE)
    assert (
        release.argv
        == words(
            "py --cuda-graph-max-bs-decode 8 --cuda-graph-bs-decode 1 8 --x -1 --cuda-graph-backend-decode full y"
        ).argv
    )


def test_a_backend_is_dropped_only_where_it_switches_graphs_off() -> None:
    disabled = words("py --cuda-graph-backend-decode=disabled --disable-decode-cuda-graph --x 1")
    assert resolve(disabled, axes(graphs=True), DDTREE).argv == ("py", "--x", "1")
    full = words("py --cuda-graph-backend-decode full --x 1")
    assert resolve(full, axes(graphs=True), DDTREE).argv == full.argv
    assert resolve(full, axes(graphs=False), DDTREE).argv == ("py", "--x", "1", "--disable-cuda-graph")


OLD = ("--cuda-graph-max-bs", "--disable-cuda-graph", "--speculative-dflash-draft-window-size")
NEW = ("--cuda-graph-max-bs-decode", "--disable-cuda-graph", "--speculative-draft-window-size")


def test_spellings_follow_the_build() -> None:
    profile = axes(graph_max_batch=32, draft_window=64)
    old = resolve(words("py --x"), profile, DDTREE, OLD)
    assert old.argv == words("py --x --cuda-graph-max-bs 32 --speculative-dflash-draft-window-size 64").argv
    moved = resolve(again(old), profile, DDTREE, NEW)
    assert moved.argv == words("py --x --cuda-graph-max-bs-decode 32 --speculative-draft-window-size 64").argv
    unknown = resolve(again(old), profile, DDTREE)
    assert unknown.argv == old.argv


def test_what_the_build_lacks_is_refused_by_its_flag() -> None:
    with pytest.raises(UnsupportedAxis, match="--cuda-graph-max-bs-decode") as refused:
        resolve(BASE, axes(graph_max_batch=32), DDTREE, ("--speculative-ddtree-budget",))
    assert (refused.value.axis, refused.value.flag) == ("graph_max_batch", "--cuda-graph-max-bs-decode")
    with pytest.raises(UnsupportedAxis, match="--speculative-ddtree-budget"):
        resolve(BASE, axes(budget=8), DIALECTS["none"])
    with pytest.raises(UnsupportedAxis, match="the dialect 'none' of this service does not know; it knows none"):
        resolve(BASE, PROFILES["b8-nvls"], DIALECTS["none"])
    with pytest.raises(UnsupportedAxis, match="no such axis"):
        resolve(BASE, axes(warp=1), DDTREE)
    with pytest.raises(UnsupportedAxis, match="eagle"):
        resolve(BASE, axes(algorithm="eagle"), DDTREE)


def test_the_profiles_own_args_and_environment() -> None:
    profile = Profile("p", {"nvls": False}, ("--port", "1", "--new"), {"A": "1", "NCCL_NVLS_ENABLE": "2"}, ("B", "A"))
    release = resolve(words("py --port 2 --x"), profile, DDTREE)
    assert release.argv == words("py --port 1 --x --new").argv
    assert release.env_set == {"A": "1", "NCCL_NVLS_ENABLE": "2"}
    assert release.env_unset == ("B",)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_axes_are_read_back(name: str) -> None:
    profile = PROFILES[name]
    dialect = DIALECTS["ngram"] if name.startswith("ngram") else DDTREE
    release = resolve(BASE, profile, dialect)
    found = axes_of(release.argv, release.env_set, dialect)
    assert {axis: found.get(axis) for axis in profile.axes} == dict(profile.axes)


def test_reading_back_follows_the_engine() -> None:
    found = axes_of(("py",), {}, DDTREE)
    assert found == {"graphs": True, "nvls": False, "symm_mem": False, "overlap": True, "algorithm": "none"}
    assert axes_of(("py", "--enable-symm-mem"), {"NCCL_NVLS_ENABLE": "0"}, DDTREE)["nvls"] is True
    assert axes_of(("py",), {"NCCL_NVLS_ENABLE": "1"}, DDTREE)["nvls"] is True
    assert axes_of(("py", "--disable-decode-cuda-graph"), {}, DDTREE)["graphs"] is False
    assert axes_of(("py", "--cuda-graph-backend-decode=disabled"), {}, DDTREE)["graphs"] is False
    assert axes_of(("py", "--speculative-algorithm", "EAGLE"), {}, DDTREE)["algorithm"] == "eagle"
    twice = (
        "py",
        "--speculative-algorithm",
        "DDTREE",
        "--speculative-ddtree-budget",
        "8",
        "--speculative-ddtree-budget=9",
    )
    assert axes_of(twice, {"SGLANG_DDTREE_MAX_TOPK": "4"}, DDTREE)["budget"] == 9
    assert "topk" not in axes_of(("py",), {"SGLANG_DDTREE_MAX_TOPK": "4"}, DDTREE)
    assert axes_of(ARGV, {}, DIALECTS["none"])["algorithm"] == "ddtree"


_WORDS = st.text('abcXYZ019./=_{}" -é', min_size=1, max_size=8).filter(lambda word: not is_flag(word))
_FOREIGN = st.tuples(st.sampled_from(["--aa", "--bb", "--cc-dd", "--ee", "-f"]), st.lists(_WORDS, max_size=3))
_OWN = st.sampled_from(
    [
        *(("--speculative-ddtree-budget", ["8"]), ("--speculative-ddtree-budget=9", []), ("--enable-nccl-nvls", [])),
        *(("--enable-symm-mem", []), ("--disable-cuda-graph", []), ("--cuda-graph-max-bs", ["4"])),
        *(("--cuda-graph-backend-decode", ["disabled"]), ("--cuda-graph-backend-decode=full", [])),
        *(("--speculative-algorithm", ["DFLASH"]), ("--max-running-requests", ["3"])),
        *(("--speculative-dflash-draft-window-size", ["1"]), ("--speculative-draft-window-size", ["2"])),
    ]
)
_ARGVS = st.lists(st.one_of(_FOREIGN, _OWN), max_size=12).map(
    lambda found: ("py", "-m", "sglang.launch_server", *(token for flag, values in found for token in (flag, *values)))
)
_AXES = st.fixed_dictionaries(
    {},
    optional={
        "algorithm": st.sampled_from(["ddtree", "dflash", "none"]),
        "budget": st.integers(1, 99),
        "topk": st.integers(1, 9),
        "draft_window": st.integers(1, 9),
        "graphs": st.booleans(),
        "graph_max_batch": st.integers(1, 9),
        "nvls": st.booleans(),
        "symm_mem": st.booleans(),
        "overlap": st.booleans(),
        "max_running": st.integers(1, 9),
    },
)
_FLAGS = st.sampled_from([None, (*NEW, *(f for f in DDTREE.spec_flags), "--max-running-requests", "--enable-nccl-nvls",
                                 "--enable-symm-mem", "--disable-overlap-schedule")])  # fmt: skip


def _foreign(argv: tuple[str, ...], dialect: Dialect) -> list[tuple[str, ...]]:
    own = set(dialect.spec_flags)
    for axis in dialect.axes.values():
        for setting in (*axis.spellings, *axis.values.values()):
            own |= {piece.flag for piece in pieces(setting.args) if piece.flag}
            own |= {flag.partition("=")[0] for flag in setting.drop}
    return [piece.tokens for piece in pieces(argv) if piece.flag not in own]


@given(_ARGVS, _AXES, _FLAGS)
def test_resolving_twice_changes_nothing_more(
    argv: tuple[str, ...], values: dict[str, AxisValue], flags: tuple[str, ...] | None
) -> None:
    profile = Profile("p", values)
    once = resolve(Base(argv, "/"), profile, DDTREE, flags)
    assert resolve(again(once), profile, DDTREE, flags) == once


@given(_ARGVS, _AXES)
def test_foreign_flags_stay_verbatim_and_in_order(argv: tuple[str, ...], values: dict[str, AxisValue]) -> None:
    release = resolve(Base(argv, "/"), Profile("p", values), DDTREE)
    assert _foreign(release.argv, DDTREE) == _foreign(argv, DDTREE)


@given(_ARGVS, _AXES)
def test_what_is_asked_is_what_is_read_back(argv: tuple[str, ...], values: dict[str, AxisValue]) -> None:
    if values.get("symm_mem") is True:
        values.pop("nvls", None)
    none = values.get("algorithm") == "none"
    release = resolve(Base(argv, "/"), Profile("p", values), DDTREE)
    found = axes_of(release.argv, release.env_set, DDTREE)
    speculating = found["algorithm"] != "none"
    for axis, value in values.items():
        if axis in ("budget", "topk", "draft_window") and (none or not speculating):
            continue
        if axis == "budget" and values.get("algorithm") == "dflash":
            continue
        assert found.get(axis) == value


@given(st.lists(st.text(max_size=6), max_size=10))
def test_pieces_join_to_what_was_taken_apart(argv: list[str]) -> None:
    assert join(pieces(argv)) == tuple(argv)


def test_diff_names_every_flag_and_variable() -> None:
    before, after = resolve(BASE, PROFILES["b8-nvls"], DDTREE), resolve(BASE, PROFILES["b16-eager"], DDTREE)
    assert diff(before, after) == [
        "--speculative-ddtree-budget: 8 → 16",
        "--disable-cuda-graph: absent → set",
        "env SGLANG_DDTREE_MAX_TOPK: 4 → 8",
    ]
    back = diff(after, resolve(BASE, PROFILES["b8"], DDTREE))
    assert "--enable-nccl-nvls: set → absent" in back
    assert "env NCCL_NVLS_ENABLE: unset → 0" in back
    assert diff(before, before) == []


def test_diff_shows_no_key() -> None:
    one = Release(("py", "--api-key", "sk-1"), {"HF_TOKEN": "a"}, (), "/")
    two = Release(("py", "--api-key", "sk-2"), {}, ("HF_TOKEN",), "/x")
    assert diff(one, two) == ["--api-key: … → …", "env HF_TOKEN: … → unset", "working folder: / → /x"]


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DB_PASSWD", "PGPASSWORD"])
def test_diff_shows_no_secret_that_the_host_hides(name: str) -> None:
    one, two = Release(("py",), {name: "a"}, (), "/"), Release(("py",), {}, (), "/")
    assert is_secret(name)
    assert diff(one, two) == [f"env {name}: … → as the unit has it"]


def test_diff_hides_secret_flags_and_shows_counts() -> None:
    flags = ("--ssl-keyfile-password", "--max-total-tokens")
    one, two = (Release(("py", flags[0], value, flags[1], value), {}, (), "/") for value in "12")
    assert diff(one, two) == [f"{flags[0]}: … → …", f"{flags[1]}: 1 → 2"]


def test_diff_says_when_only_the_writing_differs() -> None:
    one, two = (Release(tuple(text.split()), {}, (), "/") for text in ("py --a=1 --b", "py --b --a 1"))
    assert diff(one, two) == ["the same flags, written in another way or order"]
