from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path

from ddtune.config.load import load_config
from ddtune.config.model import HostConfig, Limits
from ddtune.config.schema import ConfigFile, HostFile, LimitsFile
from ddtune.config.template import TEMPLATE, write_template

UNMARKED = re.sub(r"^# (?=\[|\w+ =)", "", TEMPLATE, flags=re.MULTILINE)
# What stands in the template as an example, because the value when left out is none.
EXAMPLES = {"ssh", "unit", "write", "api_key_file", "user", "port", "identity", "known_hosts", "limits", "name"}


def test_it_begins_without_a_host(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    assert write_template(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_config(path) == {}
    path.write_text("# mine\n")
    assert not write_template(path)
    assert path.read_text() == "# mine\n"


def test_it_shows_every_setting_with_its_own_value() -> None:
    data = tomllib.loads(UNMARKED)
    assert set(data["hosts"]["b300"]) == set(HostFile.model_fields)
    assert set(data["hosts"]["b300"]["limits"]) == set(LimitsFile.model_fields)
    host = ConfigFile.model_validate(data).hosts["b300"].host("b300")
    plain = HostConfig(name="b300", ssh="b300")
    for field in set(HostConfig.__dataclass_fields__) - EXAMPLES:
        assert getattr(host, field) == getattr(plain, field), field
    for field in set(Limits.__dataclass_fields__) - {"soak_s", "soak_requests"}:
        assert getattr(host.limits, field) == getattr(Limits(), field), field
