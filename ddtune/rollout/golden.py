"""Reference answers on a host: read for a gate, made from stable, and said in sentences."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from ddtune.config.model import HostConfig
from ddtune.gate import golden
from ddtune.gate.golden import Golden
from ddtune.gate.reference import Reference
from ddtune.profiles import store
from ddtune.profiles.model import GateSizes
from ddtune.rollout.engine_check import FLAG_CHECK_S
from ddtune.rollout.errors import Refused, require_writable
from ddtune.rollout.judge import Judge
from ddtune.rollout.link import HostLink
from ddtune.rollout.owner import owner
from ddtune.rollout.state import HostState, read_state
from ddtune.rollout.timing import Stopwatch
from ddtune.rollout.units import adopted_unit

STABLE = "stable"
START_S = 150.0
# Tokens a second of one request without speculation, as recorded; only to say minutes beforehand.
AR_TOKENS_PER_S = 141.0


async def kept(link: HostLink, key: Mapping[str, str]) -> Reference | None:
    """The reference that the host keeps for this engine, None where there is none that this version can read."""
    body = (await link.call("golden", key=dict(key)))["golden"]
    try:
        return Golden.from_dict(body).reference() if body else None
    except (KeyError, TypeError, ValueError):
        return None


async def engine_key(link: HostLink, inspected: Mapping[str, Any], *, keep: bool = False) -> dict[str, str]:
    """What a reference of the running engine belongs to; with ``keep`` the host remembers what its engine was asked."""
    build = await link.call("probe_build", timeout=FLAG_CHECK_S, **({"keep": True} if keep else {}))
    return golden.engine_key(inspected.get("argv") or (), str(build.get("build") or ""))


async def put(link: HostLink, made: Golden) -> dict[str, Any]:
    """Keep it on the host; the host's answer."""
    return await link.call(
        "put_golden", key=dict(made.key), golden=made.to_dict(), text=sentence(made), owner=owner(), timeout=60.0
    )


async def make_from_stable(config: HostConfig, tell: Callable[[str], None]) -> Golden:
    """Ask what runs now, change nothing but the kept answers.

    Raises EngineGone, Refused, and the helper's errors.
    """
    require_writable(config)
    async with HostLink(config, await adopted_unit(config)) as link:
        state = read_state(await link.call("state", limit=1))
        if state.busy is not None:
            raise Refused("busy", f"A transaction runs on {config.name}: its candidate is no reference.")
        judge = Judge(link, Stopwatch())
        inspected = await judge.inspected()
        if (inspected.get("matches") or {}).get("release") != state.stable.release:
            raise Refused("drift", f"What runs on {config.name} is not its stable release, so it is no reference.")
        try:
            made = await golden.measure(
                judge.send,
                sizes_of(state),
                key=await engine_key(link, inspected),
                nonce=f"golden-{time.time():.0f}",
                source=STABLE,
                profile=state.stable.profile,
                release=state.stable.release,
                made_by=by(),
                flush=False,
                tell=tell,
            )
        except ValueError as error:
            raise Refused("wrong_output", f"{config.name}: {error}") from error
        await put(link, made)
        return made


def sizes_of(state: HostState) -> GateSizes:
    """The sizes of stable's own gate, so that every prompt of a later gate has its answer."""
    profile = store.load_profiles().get(state.stable.profile or "")
    return profile.gate if profile else GateSizes()


def by() -> str:
    """Who makes it, as others will be told."""
    who = owner()
    return f"{who['who']}@{who['host']}"


def sentence(made: Golden) -> str:
    """What was made, for the history and the terminal."""
    gaps = "" if made.margins_refused is None else f"; no gaps between tokens: {made.margins_refused}"
    return (
        f"reference answers from {made.source} ({made.profile or 'unnamed'}): {len(made.answers)} prompts, "
        f"{made.tokens} tokens, {made.seconds:.0f} s; {made.own()}{gaps}"
    )


def visit_minutes(sizes: GateSizes, start_s: float | None, drain_s: float, clock_scale: float) -> float:
    """About how long a visit takes: two starts and the questions, three times asked."""
    tokens = (sizes.singles + 4) * sizes.tokens + sizes.crowd * 2 * sizes.tokens + sizes.long_tokens
    asking = 2.2 * tokens / AR_TOKENS_PER_S / clock_scale
    starts = 2 * (start_s if start_s is not None else START_S / clock_scale)
    return math.ceil(2 * (drain_s + starts + asking) / 60) / 2


def made_json(made: Golden) -> dict[str, Any]:
    """The ``golden`` part of the command's JSON (docs/json.md)."""
    middle, suspects, runs = made.reference().own()
    return {
        "source": made.source,
        "profile": made.profile,
        "release": made.release,
        "key": dict(made.key),
        "made_at": made.made_at,
        "made_by": made.made_by,
        "prompts": len(made.answers),
        "tokens": made.tokens,
        "seconds": made.seconds,
        "cold": made.cold,
        "gaps": made.margins_refused is None,
        "gaps_refused": made.margins_refused,
        "own": {"median_agreement": middle, "suspects": suspects, "runs": runs},
    }
