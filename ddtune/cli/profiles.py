"""``ddtune profiles``: list, show, diff and check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from ddtune.cli import report
from ddtune.cli.hosts import reached

if TYPE_CHECKING:
    from ddtune.profiles.model import Profile
    from ddtune.rollout.onbuild import Build

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
host_option = click.option("--host", metavar="HOST", help="Against this host's base and installed engine.")


@click.group()
def profiles() -> None:
    """What may run: shipped profiles and those of your own in the config folder's profiles/."""


@profiles.command("list")
@host_option
@json_option
def list_profiles(host: str | None, as_json: bool) -> None:
    """Every profile with its axes; with --host which of them its engine can express."""
    known = _load(as_json=as_json)
    with ExitStack() as stack:
        build = _build(stack, host, as_json=as_json)
        why_not = {name: build.why_not(one) if host else None for name, one in known.items()}
    if as_json:
        found = [{**_body(one), "why_not": why_not[one.name]} for one in known.values()]
        report.print_json({"proto": 1, "host": host, "profiles": found})
        return
    for one in known.values():
        axes = " ".join(f"{axis}={_value(value)}" for axis, value in one.axes.items())
        report.say(f"{one.name:14} {axes}" + (f"  (not here: {why_not[one.name]})" if why_not[one.name] else ""))


@profiles.command()
@click.argument("name")
@host_option
@json_option
def show(name: str, host: str | None, as_json: bool) -> None:
    """The argv and environment that profile NAME resolves to."""
    with ExitStack() as stack:
        build = _build(stack, host, as_json=as_json)
        release, dialect, findings = _resolve(build, _one(name, as_json=as_json), as_json=as_json)
    if as_json:
        body = {
            "profile": name,
            "host": host,
            "dialect": dialect,
            "release": release.sha256,
            "argv": list(release.argv),
        }
        env = {"env_set": dict(release.env_set), "env_unset": list(release.env_unset), "cwd": release.cwd}
        report.print_json({"proto": 1, **body, **env, "findings": findings})
        return
    report.say(f"{name} by dialect {dialect}, release {release.sha256[:12]}")
    report.say("\n".join(f"  {report.clean(word)}" for word in release.argv))
    for key, value in release.env_set.items():
        report.say(f"  {report.clean(key)}={report.clean(value)}")
    for key in release.env_unset:
        report.say(f"  unset {report.clean(key)}")
    for finding in findings:
        report.say(f"{'refused' if finding['blocks'] else 'note'}: {report.clean(finding['text'])}")


@profiles.command("diff")
@click.argument("before")
@click.argument("after")
@host_option
@json_option
def diff_profiles(before: str, after: str, host: str | None, as_json: bool) -> None:
    """Every flag and variable in which two profiles differ, absent ones too."""
    from ddtune.profiles.diff import diff

    with ExitStack() as stack:
        build = _build(stack, host, as_json=as_json)
        first = _resolve(build, _one(before, as_json=as_json), as_json=as_json)[0]
        second = _resolve(build, _one(after, as_json=as_json), as_json=as_json)[0]
    changes = diff(first, second)
    if as_json:
        report.print_json({"proto": 1, "host": host, "before": before, "after": after, "changes": changes})
        return
    report.say("\n".join(map(report.clean, changes)) or "no difference")


@profiles.command()
@click.argument("names", nargs=-1)
@host_option
@click.option("--local-engine", is_flag=True, help="Also ask the SGLang installed beside ddtune (extra: engine).")
@json_option
def check(names: Sequence[str], host: str | None, local_engine: bool, as_json: bool) -> None:
    """What is wrong with profiles; with --host against its installed engine. Exit 9 when one cannot be used."""
    known = _load(as_json=as_json)
    chosen = [_one(name, as_json=as_json) for name in names] or list(known.values())
    with ExitStack() as stack:
        build = _build(stack, host, as_json=as_json)
        found = {one.name: build.findings(one) for one in chosen}
    if local_engine:
        found = {one.name: [*found[one.name], *_by_local_engine(build, one, as_json=as_json)] for one in chosen}
    if as_json:
        report.print_json({"proto": 1, "host": host, "profiles": found})
    else:
        for name, findings in found.items():
            report.say(f"{name}: {'ok' if not findings else ''}")
            for finding in findings:
                report.say(f"  {'refused' if finding['blocks'] else 'note'}: {report.clean(finding['text'])}")
    if any(finding["blocks"] for findings in found.values() for finding in findings):
        raise SystemExit(report.CHECK_FAILED)


def _by_local_engine(build: Build, profile: Profile, *, as_json: bool) -> list[dict[str, Any]]:
    from ddtune.profiles.errors import UnsupportedAxis
    from ddtune.rollout import local_engine

    if not local_engine.installed():
        message = "no SGLang is installed beside ddtune: pip install 'ddtune[engine]'."
        report.fail(message, report.USAGE, cause="usage", as_json=as_json)
    try:
        release = build.resolve(profile)
    except UnsupportedAxis:
        return []  # The findings say so already.
    said = local_engine.check(release, build.base.argv)
    return [{"text": one.text, "blocks": one.blocks, "cause": one.cause} for one in said]


def _load(*, as_json: bool) -> Mapping[str, Profile]:
    from ddtune.config.errors import ConfigError
    from ddtune.profiles.store import load_profiles

    try:
        return load_profiles()
    except ConfigError as error:
        report.fail(str(error), report.USAGE, cause="usage", as_json=as_json)


def _one(name: str, *, as_json: bool) -> Profile:
    from ddtune.rollout.errors import UnknownProfile
    from ddtune.rollout.onbuild import find_profile

    try:
        return find_profile(name, _load(as_json=as_json))
    except UnknownProfile as error:
        report.fail(error.message, report.USAGE, cause="usage", as_json=as_json)


def _build(stack: ExitStack, host: str | None, *, as_json: bool) -> Build:
    """The host's base and build, or the recorded deployment's where no host is named."""
    from ddtune.cli.helper import ask
    from ddtune.rollout.onbuild import Build, recorded

    if host is None:
        return recorded()
    config = stack.enter_context(reached(host, as_json=as_json))
    state = ask(config, "state", as_json=as_json, limit=0)
    if not state.get("adopted"):
        message = f"{host} is not under ddtune yet: run `ddtune adopt {host}` first."
        report.fail(message, report.REFUSED, cause="not_adopted", as_json=as_json, host=host)
    return Build.of(state, ask(config, "probe_build", as_json=as_json, timeout=180.0))


def _resolve(build: Build, profile: Profile, *, as_json: bool) -> tuple[Any, str, list[dict[str, Any]]]:
    from ddtune.profiles.errors import UnsupportedAxis

    try:
        return build.resolve(profile), build.dialect.name, build.findings(profile)
    except UnsupportedAxis as error:
        report.fail(str(error), report.REFUSED, cause="unsupported_axis", as_json=as_json)


def _body(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "description": profile.description,
        "axes": dict(profile.axes),
        "expect": {
            "accept_length": profile.expect.accept_length,
            "tokens_per_s": {str(level): rate for level, rate in profile.expect.tokens_per_s.items()},
        },
    }


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
