"""The dialect of one service: written where its user can edit it, found again by others, looked at on another build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddtune.config.errors import ConfigError
from ddtune.profiles import dialects
from ddtune.profiles.errors import UnsupportedAxis
from ddtune.profiles.fit import fit
from ddtune.profiles.model import Profile
from ddtune.profiles.store import load_profiles
from ddtune.rollout import site_dialect
from ddtune.rollout.onbuild import Build
from tests.unit.test_profiles_dialects import base, known

BUILD = "0.5.23+abcd1234"
NAME = "site-rack7-kimi"
TREE = base("ddtree-pr29907").argv
TREE_FLAGS = sorted(known("ddtree-pr29907"))
PLAIN = ("py", "-m", "sglang.launch_server", "--max-running-requests", "8")


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, which there is not yet."""
    monkeypatch.setenv("DDTUNE_CONFIG", str(tmp_path / "own" / "config.toml"))
    return tmp_path / "own"


def drafted(argv: tuple[str, ...] = TREE, flags: list[str] = TREE_FLAGS) -> site_dialect.SiteDialect:
    parent = dialects.choose(None, flags, argv)
    return site_dialect.drafted("rack7", "kimi.service", argv, {}, flags, BUILD, parent)


def adopted(own: site_dialect.SiteDialect, argv: tuple[str, ...] = TREE) -> dict[str, Any]:
    """The helper's ``state`` of a service that was adopted with ``own``."""
    site = {"dialect": "none", "site_dialect": own.on_host, "build": BUILD}
    return {"adopted": True, "site": site, "base": {"argv": list(argv), "cwd": "/"}}


@pytest.mark.parametrize(
    ("host", "unit", "name"),
    [
        ("rack7", "kimi.service", NAME),
        ("ops@10.0.0.7:2222", "sglang@a.service", "site-ops-10.0.0.7-2222-sglang-a"),
        ("../../etc", "x/../y.service", "site-etc-x-..-y"),
    ],
)
def test_its_name_is_a_file_name(host: str, unit: str, name: str) -> None:
    assert site_dialect.name_for(host, unit) == name


def test_it_is_written_once_and_the_users_edit_counts(user: Path) -> None:
    own = drafted()
    assert (own.name, own.kept, own.dialect.build) == (NAME, False, BUILD)
    assert site_dialect.write(own.name, own.text) is None
    path = user / "dialects" / f"{NAME}.toml"
    assert path.read_text() == own.text
    path.write_text(own.text + '\n[axes.warp]\nargs = ["--warp", "{value}"]\n')
    assert site_dialect.write(own.name, own.text) is None
    again = drafted()
    assert again.kept
    assert "warp" in again.dialect.axes
    assert "warp" in again.on_host["text"]
    build = Build.of(adopted(own), {"flags": [*TREE_FLAGS, "--warp"], "build": BUILD})
    assert build.resolve(Profile("p", {"warp": 9})).argv[-2:] == ("--warp", "9")


def test_a_file_of_before_that_does_not_know_what_runs_is_told() -> None:
    own = drafted()
    assert site_dialect.kept_as_it_is(own, {"algorithm": "ddtree"}).endswith("used as it is")
    assert site_dialect.kept_as_it_is(own, {}).endswith("used as it is")
    assert "does not know ngram, which runs" in site_dialect.kept_as_it_is(own, {"algorithm": "ngram"})


def test_another_operator_reads_it_from_the_host(user: Path) -> None:
    own = drafted()
    build = Build.of(adopted(own), {"flags": TREE_FLAGS, "build": BUILD})
    assert not user.exists()
    assert (build.dialect.name, build.dialect.axes) == (NAME, own.dialect.axes)
    assert build.resolve(load_profiles()["b16-eager"]).argv


def test_a_folder_that_takes_no_file_is_told(user: Path) -> None:
    user.mkdir()
    (user / "dialects").write_text("in the way")
    assert "could not be written" in (site_dialect.write(NAME, "") or "")


@pytest.mark.parametrize("name", ["x", "site-../../../etc/cron.d/x", "site-", "site-a b"])
def test_only_a_plain_name_of_the_hosts_becomes_a_file(name: str) -> None:
    assert site_dialect.of_host({"site_dialect": {"name": name, "text": ""}}) is None
    assert site_dialect.of_host({"site_dialect": {"name": NAME, "text": "t"}}) == (NAME, "t")


@pytest.mark.parametrize("text", ["= 1", "axis = 1", 'extends = "nothing"'])
def test_a_text_of_the_hosts_that_cannot_be_used_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match=NAME):
        dialects.of_site({"site_dialect": {"name": NAME, "text": text}}, ())


def test_each_engine_upgrade_is_looked_at_until_the_user_has() -> None:
    own = drafted()
    assert site_dialect.write(own.name, own.text) is None
    state, new = adopted(own), {"flags": [*TREE_FLAGS, "--speculative-new"], "build": "0.5.99+ffff0000"}
    profile = load_profiles()["b16-eager"]
    assert Build.of(state, {"flags": TREE_FLAGS, "build": BUILD}).lint(profile) == []
    for _ in range(2):
        (found,) = Build.of(state, new).lint(profile)
        assert "would leave --speculative-new in place without speculation" in found.text
        # As the host notes it: from then on its own record names the new build.
        state["site"] = {**state["site"], "build": new["build"], "build_before": BUILD}
    path = site_dialect.path_of(own.name)
    path.write_text(own.text.replace(BUILD, str(new["build"])))
    assert Build.of(state, new).lint(profile) == []


def test_a_service_without_speculation_says_how_to_give_it_one() -> None:
    flags = sorted(known("none") | known("ngram"))
    own = drafted(PLAIN, flags)
    assert own.dialect.name == NAME
    assert site_dialect.write(own.name, own.text) is None
    build = Build.of(adopted(own, PLAIN), {"flags": flags, "build": BUILD})
    ngram = load_profiles()["ngram16"]
    path = site_dialect.path_of(own.name)
    with pytest.raises(UnsupportedAxis) as refused:
        build.resolve(ngram)
    assert "algorithm = ngram" in str(refused.value)
    assert f'let {path} say extends = "ngram"' in str(refused.value)
    path.write_text(own.text.replace('extends = "none"', 'extends = "ngram"'))
    taught = Build.of(adopted(own, PLAIN), {"flags": flags, "build": BUILD})
    argv = taught.resolve(ngram).argv
    assert argv[argv.index("--speculative-algorithm") + 1] == "NGRAM"
    # And the way back drops all of it again.
    base = replace(taught.base, argv=argv)
    assert "--speculative-algorithm" not in replace(taught, base=base).resolve(load_profiles()["ar"]).argv


def test_a_dialect_of_another_service_is_never_offered() -> None:
    own = drafted()
    assert site_dialect.write(own.name, own.text) is None
    known_now = dialects.load_dialects()
    assert NAME in known_now
    assert NAME not in fit(load_profiles()["b8"], known_now["none"], known_now).dialects
