"""The profiles that there are: shipped ones and the user's own."""

from __future__ import annotations

from collections.abc import Mapping

from ddtune.config.errors import ConfigError
from ddtune.profiles import toml_text
from ddtune.profiles.files import folders, read_file
from ddtune.profiles.model import AxisValue, GateSizes, Profile

_NOT_PROFILES = frozenset(("envelope",))


def load_profiles() -> dict[str, Profile]:
    """All profiles by name; a file of the user's takes the place of a shipped one of its name.

    Raises ConfigError that names every file that cannot be used.
    """
    from ddtune.profiles.schema import ProfileFile

    found: dict[str, Profile] = {}
    wrong: list[str] = []
    for folder in folders("profiles"):
        for path in sorted(folder.glob("*.toml")):
            if path.stem in _NOT_PROFILES:
                continue
            try:
                found[path.stem] = read_file(path, ProfileFile).profile(path.stem)
            except ConfigError as error:
                wrong.append(str(error))
    if wrong:
        raise ConfigError("; ".join(wrong))
    return found


def draft_profile(name: str, axes: Mapping[str, AxisValue]) -> str:
    """An editable profile file of these axes, for the user's folder."""
    sizes = sizes_for(axes)
    lines = [f"# Drafted from what ran at adoption; save as {name}.toml and edit at will.", "[axes]"]
    lines += [f"{axis} = {toml_text.value(value)}" for axis, value in axes.items()]
    lines += ["", "[gate]", f"concurrency = [{', '.join(map(str, sizes.concurrency))}]"]
    lines += [f"soak_s = {sizes.soak_s:g}", f"soak_requests = {sizes.soak_requests}"]
    return "\n".join(lines) + "\n"


def sizes_for(axes: Mapping[str, AxisValue]) -> GateSizes:
    """Sizes of a gate that goes as far as the service takes requests at once."""
    most = axes.get("max_running")
    top = most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else 32
    return GateSizes(concurrency=tuple(sorted({1, min(2, top), min(8, top), min(32, top), top})))
