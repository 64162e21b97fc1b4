"""The lines of ``doctor`` about the service: how it is written down, and the engine in it."""

from __future__ import annotations

from collections.abc import Iterator

from ddtune.config.errors import ConfigError
from ddtune.profiles import dialects
from ddtune.profiles.model import Dialect
from ddtune.rollout import site_dialect
from ddtune.rollout.doctor_look import Seen
from ddtune.rollout.symptom import Symptom, bad, good, note

OURS = "zz-ddtune.conf"
LAUNCHER = "ddtune-onhost.pyz become"


def lines(seen: Seen) -> Iterator[Symptom]:
    """All of them; the first says whether there is a service at all."""
    survey = seen.survey or {}
    units = [str(one["unit"]) for one in survey.get("units") or ()]
    if seen.unit is None:
        yield _none(seen, units)
        return
    if "error" in seen.service:
        yield bad("unit", str(seen.service["error"]), "nothing to watch", f"systemctl status {seen.unit}")
        return
    yield _unit(seen, units)
    if seen.props.get("LoadState") != "loaded":
        return
    yield _kind(seen)
    yield from _files(seen)
    yield from _settings(seen)
    if seen.service.get("argv"):
        yield from _engine(seen)


def _none(seen: Seen, units: list[str]) -> Symptom:
    if units:
        named = ", ".join(f"{seen.host}:{unit}" for unit in units)
        return bad("unit", f"several services run an engine: {', '.join(units)}", "none is shown", f"name one: {named}")
    loose = (seen.survey or {}).get("loose") or []
    if loose:
        return bad(
            "unit",
            f"an SGLang server runs as process {loose[0]['pid']}, outside of any service",
            "it cannot be adopted: nothing would start it again",
            "give it a systemd service",
        )
    return bad("unit", "no running SGLang service found", "nothing to watch", f"name it: {seen.host}:UNIT, or start it")


def _unit(seen: Seen, units: list[str]) -> Symptom:
    props, unit = seen.props, seen.unit
    if props.get("LoadState") != "loaded":
        near = f"; what runs an engine is {', '.join(units)}" if units else ""
        return bad("unit", f"{unit} does not exist there{near}", "nothing to watch", f"name it: {seen.host}:UNIT")
    state = f"{unit} is {props.get('ActiveState')} ({props.get('SubState')}), Type={props.get('Type')}"
    if props.get("ActiveState") != "active":
        return bad("unit", state, "nothing to watch, and nothing that could be adopted", f"systemctl start {unit}")
    return good("unit", state)


def _kind(seen: Seen) -> Symptom:
    service = seen.service
    if service.get("unsupported"):
        return bad(
            "kind",
            str(service["unsupported"]),
            "it can be watched, not adopted",
            f"sudo systemctl edit --full {seen.unit}",
        )
    command = str(service.get("on_disk") or LAUNCHER)
    if _adopted(seen) and LAUNCHER not in command:
        return bad(
            "kind",
            f"its next start is {command}, not ddtune's launcher",
            "a switch is refused, and a start runs what ddtune does not know",
            f"systemctl cat {seen.unit} shows which drop-in says so",
        )
    if _adopted(seen):
        return good("kind", "its starts go through ddtune's launcher")
    if not service.get("argv"):
        return note("kind", "not known while it does not run")
    same = service.get("same_command")
    if same:
        return good("kind", "the unit's own command is the engine")
    if service.get("environment_unreadable"):
        return note("kind", f"cannot be told: {service['environment_unreadable']}", "adopt will tell, as root")
    if same is None:
        return good("kind", "a wrapper that ends in exec; what it sets is kept at adoption")
    return bad(
        "kind",
        f"it does not run what its unit says: {service.get('running')}",
        "adopt refuses: the next start would run something else",
        f"restart it, or correct the unit, which says: {service.get('on_disk')}",
    )


def _files(seen: Seen) -> Iterator[Symptom]:
    paths = seen.props.get("DropInPaths", "").split()
    names = [path.rsplit("/", 1)[-1] for path in paths]
    shown = f"{seen.props.get('FragmentPath')} with {', '.join(names) or 'no drop-ins'}"
    later = names[names.index(OURS) + 1 :] if OURS in names else [name for name in names if name > OURS]
    if later:
        cost = f"{', '.join(later)} is read after ddtune's drop-in: a command in it would win, and adopt would refuse"
        path = next(path for path in paths if path.endswith(f"/{later[0]}"))
        yield note("drop-ins", shown, cost, f"sudo mv {path} {path.rpartition('/')[0]}/90-{later[0]}")
    else:
        yield good("drop-ins", shown)
    if seen.props.get("NeedDaemonReload") == "yes":
        yield note(
            "changed files",
            "systemd says that the unit's files changed on disk",
            "none by itself; the next start may differ from what systemd has read",
            "systemctl daemon-reload",
        )
    for text in seen.service.get("command_remarks") or ():
        cost = "the engine may run without what the unit seems to say"
        yield note("arguments", str(text), cost, f"sudo systemctl edit --full {seen.unit}")
    for path, optional in seen.service.get("environment_files") or ():
        unreadable = str(seen.service.get("environment_unreadable") or "")
        if path in unreadable:
            yield note("environment file", f"{unreadable}", "what it sets is not seen by this login")
        else:
            yield good("environment file", f"{path}{' (may be missing)' if optional else ''}")


def _settings(seen: Seen) -> Iterator[Symptom]:
    props = seen.props
    if props.get("KillMode") in ("process", "none"):
        yield bad(
            "kill mode",
            f"KillMode={props['KillMode']}",
            "ranks may outlive a stop and keep the GPUs' memory",
            f"ddtune adopt {seen.host} sets KillMode=mixed",
        )
    else:
        yield good("kill mode", f"KillMode={props.get('KillMode')}")
    restart = props.get("Restart")
    if restart == "no":
        yield note(
            "restart",
            "Restart=no",
            "a crash with no switch under way leaves the service down",
            f"sudo systemctl edit {seen.unit}: Restart=on-failure under [Service]",
        )
    else:
        yield good("restart", f"Restart={restart}")
    yield good("service user", props.get("User") or "root")
    if seen.service.get("output"):
        yield bad(
            "output",
            f"{seen.service['output']}: what the engine says does not go to the journal that ddtune reads",
            "no log, no start phase and no incident; a fatal line brings nobody back before the process has ended",
            f"sudo systemctl edit {seen.unit}: StandardOutput=journal and LogNamespace= under [Service]",
        )


def _engine(seen: Seen) -> Iterator[Symptom]:
    build, api = seen.build or {}, seen.service.get("api") or {}
    port = seen.service.get("port")
    if build.get("build"):
        yield good("engine", f"SGLang {build['build']}, {len(build.get('flags') or ())} flags")
    elif build.get("error"):
        version = f"SGLang {api['version']}; " if api.get("version") else ""
        yield note("engine", f"{version}{build['error']}", "flags of profiles are not checked before a switch")
    yield from _dialect(seen)
    if port is not None and port != seen.config.api_port:
        yield good("api port", f"{port}, by the engine's own command line")
    if seen.service.get("api"):
        yield _metrics(seen)


def _dialect(seen: Seen) -> Iterator[Symptom]:
    flags = tuple((seen.build or {}).get("flags") or ())
    site = (seen.survey or {}).get("site") or {}
    try:
        dialect = dialects.of_site(site, flags, tuple(seen.service.get("argv") or ()))
    except ConfigError as error:
        yield bad("dialect", str(error), "no profile can be resolved", "put its file back into ddtune's folder")
        return
    remarks = site_dialect.remarks(site, dialect, str((seen.build or {}).get("build") or ""), flags)
    for remark in remarks:
        yield bad("dialect", remark.text, "profiles may not mean what they meant", _mend(seen, dialect))
    if not remarks:
        yield good("dialect", dialect.name)


def _mend(seen: Seen, dialect: Dialect) -> str:
    path = site_dialect.path_of(dialect.name)
    if dialect.build is None:
        return f'{path} with extends = "{dialect.name}" could say what the build says otherwise'
    return f"edit {path}" if path.exists() else f"ddtune adopt {seen.host} writes it to {path}; edit it there"


def _metrics(seen: Seen) -> Symptom:
    api = seen.service.get("api") or {}
    said = api.get("/metrics")
    cost = "rates and accept length stay unknown"
    if api.get("key"):
        return bad("metrics", str(api["key"]), cost, "set api_key_file to a file that this login may read")
    if said == 200 and api.get("families"):
        return good("metrics", f"{api['families']} families of the engine")
    if said in (401, 403):
        return bad("metrics", "the API asks for a key", cost, f"set api_key_file for {seen.host}")
    if said in (200, 404):
        return bad(
            "metrics", "off", cost, f"sudo systemctl edit --full {seen.unit}: add --enable-metrics to the command"
        )
    return bad("metrics", str(said), cost, "is the engine still starting?")


def _adopted(seen: Seen) -> bool:
    return bool((seen.survey or {}).get("site"))
