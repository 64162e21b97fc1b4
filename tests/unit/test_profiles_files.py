from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from ddtune.config.errors import ConfigError
from ddtune.config.names import nearest
from ddtune.profiles.dialects import choose, load_dialects, pick_dialect
from ddtune.profiles.files import shipped_dir
from ddtune.profiles.model import GateSizes
from ddtune.profiles.schema import ProfileFile, json_schemas
from ddtune.profiles.store import draft_profile, load_profiles, sizes_for


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, empty."""
    monkeypatch.setenv("DDTUNE_CONFIG", str(tmp_path / "config.toml"))
    for kind in ("profiles", "dialects"):
        (tmp_path / kind).mkdir()
    return tmp_path


def test_what_is_shipped() -> None:
    found = load_profiles()
    trees = {"b8-nvls", "b8", "b16-eager", "b12", "b16", "b32", "b64"}
    pcie = {"pcie-b8", "pcie-b16", "pcie-b32", "pcie-chain", "pcie-ar"}
    assert set(found) == trees | pcie | {"ar", "chain", "ngram8", "ngram16", "ngram32", "ngram16-eager"}
    production = found["b8-nvls"]
    assert production.expect.accept_length == 4.48
    assert production.expect.tokens_per_s == {1: 303, 128: 4723}
    assert production.gate.concurrency == (1, 2, 8, 32, 128)
    assert (found["b16-eager"].axes["graphs"], found["b16-eager"].expect.tokens_per_s) == (False, {1: 111})
    assert (found["ar"].axes["algorithm"], found["ar"].expect.accept_length) == ("none", None)
    for name in ("b12", "b16", "b32", "b64"):
        assert (found[name].axes["graphs"], found[name].axes["nvls"]) == (True, True)
    assert not any(found[name].axes["nvls"] for name in pcie)
    assert set(load_dialects()) == {"ddtree-pr29907", "ddtree-dbguo", "dflash-chain", "ngram", "eagle3", "none"}


@pytest.mark.parametrize("path", sorted(shipped_dir().rglob("*.toml")), ids=lambda path: path.stem)
def test_shipped_files_follow_the_json_schema(path: Path) -> None:
    if path.stem == "envelope":
        return
    name = "dialect" if path.parent.name == "dialects" else "profile"
    schema = json.loads((shipped_dir() / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads(path.read_text()), schema)


def test_the_json_schemas_are_those_of_the_models() -> None:
    for name, schema in json_schemas().items():
        assert json.loads((shipped_dir() / name).read_text()) == schema


@pytest.mark.parametrize(
    "wrong", [{"axis": {}}, {"axes": {"budget": []}}, {"gate": {"concurrency": [0]}}, {"env": {"A=B": ""}}]
)
def test_the_json_schema_can_fail(wrong: object) -> None:
    schema = json.loads((shipped_dir() / "profile.schema.json").read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_users_files_win(user: Path) -> None:
    (user / "profiles" / "b8.toml").write_text('axes = { algorithm = "ddtree", budget = 9 }\n')
    (user / "profiles" / "mine.toml").write_text("[axes]\nbudget = 14\n")
    found = load_profiles()
    assert found["b8"].axes == {"algorithm": "ddtree", "budget": 9}
    assert (found["mine"].axes, found["mine"].gate) == ({"budget": 14}, GateSizes())


def test_every_broken_file_is_named(user: Path) -> None:
    (user / "profiles" / "one.toml").write_text("[axis]\nbudget = 14\n")
    (user / "profiles" / "two.toml").write_text("[axes\n")
    (user / "profiles" / "three.toml").write_text('args = ["value"]\n[env]\nINVOCATION_ID = "x"\n')
    with pytest.raises(ConfigError) as refused:
        load_profiles()
    message = str(refused.value)
    assert "one.toml: axis is not known (did you mean axes" in message
    assert "two.toml is not valid TOML" in message
    assert "args: must begin with a flag" in message
    assert "INVOCATION_ID is given anew to each start" in message


def test_a_dialect_follows_the_builds_flags() -> None:
    found = load_dialects()
    assert pick_dialect(["--speculative-ddtree-budget", "--port"], found).name == "ddtree-pr29907"
    assert pick_dialect(["--port"], found).name == "none"
    assert pick_dialect(["--speculative-dflash-enable-ddtree"], found).name == "ddtree-dbguo"
    assert choose(None, [], ("py", "--speculative-ddtree-budget", "8")).name == "ddtree-pr29907"
    assert choose("none", ["--speculative-ddtree-budget"]).name == "none"
    with pytest.raises(ConfigError, match="ddtree-pr29907"):
        choose("ddtree-pr2990", [])


def test_of_one_build_the_algorithm_that_runs_decides() -> None:
    found = load_dialects()
    released = ["--speculative-num-draft-tokens", "--speculative-ngram-capacity", "--speculative-eagle-topk"]
    for algorithm, name in {"DFLASH": "dflash-chain", "ngram": "ngram", "EAGLE3": "eagle3", "UNO": "none"}.items():
        assert pick_dialect(released, found, ("py", "--speculative-algorithm", algorithm)).name == name
    # A fork's own flag says more than the algorithm that happens to run on it.
    for flag, name in {
        "--speculative-ddtree-budget": "ddtree-pr29907",
        "--speculative-dflash-enable-ddtree": "ddtree-dbguo",
    }.items():
        assert pick_dialect([*released, flag], found, ("py", "--speculative-algorithm=DFLASH")).name == name


def test_a_site_dialect(user: Path) -> None:
    (user / "dialects" / "site.toml").write_text(
        """
        extends = "ddtree-pr29907"
        match = { flags = ["--speculative-ddtree-budget", "--our-flag"] }
        speculative = { flags = ["--our-flag"], env = ["OUR_ENV"] }
        [axes.topk]
        args = ["--our-flag", "{value}"]
        """
    )
    found = load_dialects()["site"]
    assert found.axes["topk"].spellings[0].args == ("--our-flag", "{value}")
    assert "--speculative-ddtree-budget" in found.spec_flags
    assert {"--our-flag"} <= set(found.spec_flags)
    assert "OUR_ENV" in found.env_names
    assert pick_dialect(["--speculative-ddtree-budget", "--our-flag"], load_dialects()).name == "site"
    assert pick_dialect(["--speculative-ddtree-budget"], load_dialects()).name == "ddtree-pr29907"


@pytest.mark.parametrize(
    "text", ['extends = "nobody"\n', 'extends = "site"\n', "[axes.a]\nagrs = ['x']\n", "[match]\nflags = ['x']\n"]
)
def test_broken_dialects_are_named(user: Path, text: str) -> None:
    (user / "dialects" / "site.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"site\.toml"):
        load_dialects()


def test_a_draft_is_a_profile() -> None:
    axes = {"algorithm": "ddtree", "budget": 8, "graphs": True, "max_running": 128}
    data = tomllib.loads(draft_profile("adopted", axes))
    profile = ProfileFile.model_validate(data).profile("adopted")
    assert profile.axes == axes
    assert profile.gate.concurrency == (1, 2, 8, 32, 128)
    assert sizes_for({}).concurrency == (1, 2, 8, 32)
    assert sizes_for({"max_running": 4}).concurrency == (1, 2, 4)


def test_near_names() -> None:
    assert nearest("b16eager", load_profiles())[0] == "b16-eager"
    assert nearest("B12", load_profiles())[0] == "b12"
    assert nearest("zzzz", load_profiles()) == []
