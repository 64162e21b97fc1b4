"""The files of the configuration as pydantic models: the edge where text becomes HostConfig."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ddtune.config.address import parse, unit_name, user_name
from ddtune.config.errors import ConfigError
from ddtune.config.model import HostConfig, Limits
from ddtune.config.names import did_you_mean

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=1, le=65535)]


class LimitsFile(BaseModel):
    """``[hosts.X.limits]``: seconds, as in Limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    drain_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Limits.drain_s
    lease_s: Annotated[float, Field(ge=10, allow_inf_nan=False)] = Limits.lease_s
    renew_s: Seconds = Limits.renew_s
    confirm_deadline_s: Seconds = Limits.confirm_deadline_s
    start_deadline_s: Seconds = Limits.start_deadline_s
    progress_s: Annotated[float, Field(ge=10, allow_inf_nan=False)] = Limits.progress_s
    stop_grace_s: Seconds = Limits.stop_grace_s
    stop_timeout_s: Seconds = Limits.stop_timeout_s
    probation_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Limits.probation_s
    soak_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    soak_requests: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _renewed_in_time(self) -> LimitsFile:
        if self.renew_s * 2 > self.lease_s:
            raise ValueError("renew_s must be at most half of lease_s, or one lost renewal ends the lease")
        return self


class HostFile(BaseModel):
    """``[hosts.X]``. ``ssh`` is an alias of OpenSSH's configuration or ``user@host:port``; it defaults to X."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ssh: str | None = None
    unit: str | None = None
    api_port: Port = HostConfig.api_port
    api_key_file: str | None = None
    traffic: Literal["open", "held"] = HostConfig.traffic
    protected: bool = HostConfig.protected
    confirm_login: Literal["fresh", "same"] = HostConfig.confirm_login
    write: bool | None = HostConfig.write
    limits: LimitsFile = LimitsFile()
    port: Port | None = None
    user: str | None = None
    identity: Path | None = None
    known_hosts: Path | None = None
    python: str = HostConfig.python

    @field_validator("unit")
    @classmethod
    def _unit(cls, value: str | None) -> str | None:
        return value if value is None else _or_value_error(unit_name, value)

    @field_validator("user")
    @classmethod
    def _user(cls, value: str | None) -> str | None:
        return value if value is None else _or_value_error(user_name, value)

    @field_validator("ssh")
    @classmethod
    def _ssh(cls, value: str | None) -> str | None:
        if value is not None and _or_value_error(parse, value).unit:
            raise ValueError("name the service in unit")
        return value

    @field_validator("api_key_file", "python")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError("must be an absolute path on the host")
        return value

    def host(self, name: str) -> HostConfig:
        """The host that this file describes."""
        address = parse(self.ssh or name)
        fields = self.model_dump(exclude={"ssh", "limits", "identity", "known_hosts"})
        fields["user"] = self.user or address.user
        fields["port"] = self.port or address.port
        return HostConfig(
            name=name,
            ssh=address.host,
            limits=Limits(**self.limits.model_dump()),
            identity=self.identity.expanduser() if self.identity else None,
            known_hosts=self.known_hosts.expanduser() if self.known_hosts else None,
            **fields,
        )


class ConfigFile(BaseModel):
    """The whole of ``config.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: dict[str, HostFile] = {}
    keys: dict[str, Annotated[str, Field(min_length=1)]] = {}
    theme: Literal["dark", "light", "terminal", "terminal-light"] = "dark"

    @field_validator("hosts")
    @classmethod
    def _names(cls, hosts: dict[str, HostFile]) -> dict[str, HostFile]:
        for name in hosts:
            address = _or_value_error(parse, name)
            if address.user or address.port or address.unit:
                raise ValueError(f"{name!r} is not a plain name; put user, port and unit into its table")
            if name == "demo" or name.startswith("demo-"):
                raise ValueError(f"{name!r} belongs to the embedded host; choose another name")
        return hosts


class DemoFile(BaseModel):
    """The descriptor of a running embedded host; keys that are not of HostConfig are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    host: str = "127.0.0.1"
    port: Port
    user: str | None = None
    identity: Path
    known_hosts: Path
    root: str
    unit: str | None = None
    api_port: Port
    api_key_file: str | None = None
    python: str = HostConfig.python
    clock_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    nvml_source: Path | None = None
    simulated: bool = True
    protected: bool = False
    traffic: Literal["open", "held"] = "open"
    confirm_login: Literal["fresh", "same"] = "fresh"
    limits: LimitsFile = LimitsFile()
    pid: int | None = None

    @field_validator("nvml_source", "api_key_file", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return value or None

    def config(self, name: str) -> HostConfig:
        """The embedded host, writable."""
        fields = self.model_dump(exclude={"limits", "pid", "host"})
        limits = Limits(**self.limits.model_dump())
        return HostConfig(name=name, ssh=self.host, limits=limits, **fields)


T = TypeVar("T")


def _or_value_error(check: Callable[[str], T], value: str) -> T:
    try:
        return check(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def problems(error: ValidationError, model: type[BaseModel]) -> str:
    """All that pydantic found, as one line: ``where: what; where: what``."""
    return "; ".join(_problem(item, model) for item in error.errors())


def _problem(item: Any, model: type[BaseModel]) -> str:
    where = ".".join(str(part) for part in item["loc"]) or "the file"
    if item["type"] == "extra_forbidden":
        return f"{where} is not known{did_you_mean(str(item['loc'][-1]), _names_at(model, item['loc'][:-1]))}"
    return f"{where}: {item['msg'].removeprefix('Value error, ')}"


def _names_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The names that the model knows at ``loc``."""
    known: Any = model
    for part in loc:
        field = getattr(known, "model_fields", {}).get(part)
        annotation = field.annotation if field else known
        arguments = [a for a in getattr(annotation, "__args__", ()) if isinstance(a, type) and issubclass(a, BaseModel)]
        known = arguments[0] if arguments else annotation
    return list(getattr(known, "model_fields", {}))
