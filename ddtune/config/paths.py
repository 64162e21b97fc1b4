"""Where ddtune keeps what is its own on the operator's machine."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from ddtune.config.errors import ConfigError


def config_file() -> Path:
    """The configuration file: ``$DDTUNE_CONFIG``, else ``config.toml`` in the platform's config folder."""
    named = os.environ.get("DDTUNE_CONFIG")
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs

    return platformdirs.user_config_path("ddtune") / "config.toml"


def config_dir() -> Path:
    """The folder of the configuration file; the user's own profiles and dialects lie beside it."""
    return config_file().parent


def state_dir() -> Path:
    """The folder of caches and of what must outlive a login; made with mode 0700."""
    import platformdirs

    return _private(platformdirs.user_state_path("ddtune"))


def runtime_dir() -> Path:
    """A folder for sockets and descriptors that nobody else can enter (0700, owner checked).

    Raises ConfigError when the place is taken by somebody else.
    """
    uid = os.geteuid()
    for base in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{uid}"):
        if base and _is_ours(Path(base), uid):
            return _private(Path(base) / "ddtune")
    return _private(Path(tempfile.gettempdir()) / f"ddtune-{uid}")


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` into a file, so that a reader sees the old one or the new one. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _is_ours(path: Path, uid: int) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and os.access(path, os.W_OK)


def _private(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise ConfigError(f"{path} is not a folder of yours; move it away and try again")
        if status.st_mode & 0o077:
            path.chmod(0o700)
    except FileExistsError:
        raise ConfigError(f"{path} is not a folder; move it away and try again") from None
    except OSError as error:
        raise ConfigError(f"cannot use the folder {path}: {error.strerror}") from error
    return path
