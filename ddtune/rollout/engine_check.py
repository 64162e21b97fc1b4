"""The installed engine's own word on a release, asked on the host before anything stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddtune.host.errors import HelperFailed, HelperRefused
from ddtune.profiles.model import Release
from ddtune.rollout.link import HostLink
from ddtune.rollout.model import Finding

FLAG_CHECK_S = 180.0


async def ask_engine(link: HostLink, release: Release, *, keep: bool = False) -> list[Finding]:
    """What the installed engine says against ``release``. Raises Unreachable.

    A host that cannot ask (an older helper, a service that is down) says so in a finding that blocks nothing.
    """
    try:
        answer = await link.call(
            "check_flags",
            timeout=FLAG_CHECK_S,
            argv=list(release.argv),
            env_set=dict(release.env_set),
            env_unset=list(release.env_unset),
            **({"keep": True} if keep else {}),
        )
    except (HelperRefused, HelperFailed) as error:
        answer = {"verdict": "unknown", "text": error.message}
    return findings(answer)


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """The finding of one ``check_flags`` answer; none where the engine takes the command line."""
    text = str(answer.get("text") or "it gave no reason")
    if answer.get("verdict") == "accepted":
        return []
    if answer.get("verdict") == "refused":
        return [Finding(f"The installed engine refuses this command line: {text}", blocks=True, cause="bad_flags")]
    return [Finding(f"The installed engine could not be asked about this command line: {text}", blocks=False)]
