"""What a release may change of the service that was adopted. Whoever may ask the helper is not thereby root's equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from . import releases
from .build_probe import program_length
from .redact import HIDDEN, UnknownKeyError, expand_argv

# They load code of somebody else's choice into the engine.
_GUARDED = re.compile(
    r"(?:LD_|PYTHON|OPENSSL_)\w*|NCCL_\w*PLUGIN\w*|NCCL_CONF_FILE|(?:CUDA|NVTX)_INJECTION(?:32|64)_PATH"
    r"|OMP_TOOL_LIBRARIES|GCONV_PATH|BASH_ENV|CC|CXX|CUDA_(?:HOME|PATH)|(?:TRITON|TORCHINDUCTOR)_\w*(?:PATH|DIR|HOME)"
    r"|TORCH_EXTENSIONS_DIR|SGLANG_EXTERNAL_\w*|SGLANG_PLUGINS?"
)


def guarded_names(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that a release may touch only because the service had them at adoption."""
    return sorted(name for name in names if name.isidentifier() and _GUARDED.fullmatch(name))


def completed(release: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """``release`` with the service's own keys put back. Raises ``releases.ReleaseError`` for one that is not allowed.

    A release starts the program of ``base`` in its folder: it may change flags and environment, not what is run.
    """
    length = program_length(base["argv"]) or 1
    if list(release["argv"][:length]) != list(base["argv"][:length]):
        raise releases.ReleaseError(
            f"a release must start as the service was adopted: {' '.join(base['argv'][:length])}"
        )
    if release["cwd"] != base["cwd"]:
        raise releases.ReleaseError(f"a release must start in the folder {base['cwd']}")
    hidden = sorted(name for name, value in release["env_set"].items() if value == HIDDEN)
    if hidden:
        raise releases.ReleaseError(f"a release needs the value of {', '.join(hidden)}, not {HIDDEN}")
    known = base.get("env_names", ())
    for name in guarded_names([*release["env_set"], *release["env_unset"]]):
        if name not in known:
            raise releases.ReleaseError(f"a release must not touch {name}: it loads code into the service")
    try:
        argv = expand_argv(release["argv"], base["argv"])
    except UnknownKeyError as error:
        raise releases.ReleaseError(str(error)) from None
    return {**release, "argv": argv}
