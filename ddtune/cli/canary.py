"""``ddtune canary``: is the tree's attention sound under CUDA graphs on this host, asked beside the service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ddtune.cli import report
from ddtune.cli.errors import judged
from ddtune.cli.hosts import reached

if TYPE_CHECKING:
    from ddtune.rollout.graph_canary import CanaryDone

BUDGETS = (4, 8, 12, 16, 32, 64)
BATCHES = (1, 8)


class Numbers(click.ParamType[Any]):
    """Whole numbers with commas between them, sorted."""

    name = "N,N,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Fails on what is no number above 0."""
        if isinstance(value, tuple):
            return value
        try:
            found = sorted({int(word) for word in str(value).split(",")})
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 4,8", param, ctx)
        if not found or found[0] < 1 or found[-1] > 1024:
            self.fail(f"{value!r} has a number below 1 or above 1024", param, ctx)
        return tuple(found)


def _listed(numbers: tuple[int, ...]) -> str:
    """As ``Numbers`` reads them."""
    return ",".join(map(str, numbers))


@click.command()
@click.argument("host")
@click.option("--budgets", type=Numbers(), default=_listed(BUDGETS), show_default=True, help="Drafted nodes of a tree.")
@click.option("--batch", type=Numbers(), default=_listed(BATCHES), show_default=True, help="Trees at once.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def canary(host: str, budgets: tuple[int, ...], batch: tuple[int, ...], as_json: bool) -> None:
    """Check HOST's tree-mask attention under CUDA graphs, by budget, beside the running service.

    Runs the installed engine's own kernel on small buffers with the service's Python and the model's head shapes, in
    eager against float32 and replayed from a graph. Takes about 1 GB of one GPU (refused where less than 2 GB are
    free) and half a minute; restarts nothing. Exit 9 for a wrong result or a crash, 10 where nothing can be said.
    """
    from ddtune.gate.graph_canary import Sound
    from ddtune.rollout.graph_canary import run_canary

    with reached(host, as_json=as_json) as config, judged(host, as_json=as_json):
        done = asyncio.run(run_canary(config, budgets, batch))
    found = done.report
    if found.refused is not None:
        report.fail(
            f"{host} has no room for the canary: {found.refused}.",
            report.REFUSED,
            cause="busy",
            as_json=as_json,
            host=host,
        )
    if as_json:
        report.print_json({"proto": 1, "host": host, "simulated": config.simulated, **canary_json(done)})
    else:
        report.say(canary_text(done, host, simulated=config.simulated))
    if found.worst in (Sound.CRASH, Sound.WRONG):
        raise SystemExit(report.CHECK_FAILED)
    if found.worst is not Sound.SOUND:
        raise SystemExit(report.INCONCLUSIVE)


def canary_json(done: CanaryDone) -> dict[str, Any]:
    """The fields of ``canary --json``, listed in docs/json.md."""
    from dataclasses import asdict

    found = done.report
    return {
        "unit": done.unit,
        "build": done.build,
        "arch": done.arch,
        "backend": found.backend,
        "kernel": found.kernel,
        "gpu": found.gpu,
        "shapes": [dict(shape) for shape in found.shapes],
        "shape_source": found.shape_source,
        "verdict": found.worst.value,
        "budgets": {
            str(one.budget): {name: value for name, value in asdict(one).items() if name != "budget"}
            for one in found.budgets
        },
        "xids": [dict(xid) for xid in found.xids],
        "not_covered": list(found.not_covered),
        "recorded": done.recorded,
        "seconds": found.seconds,
    }


def canary_text(done: CanaryDone, host: str, *, simulated: bool) -> str:
    """One line a budget, and what none of them speaks of."""
    found = done.report
    where = " on ".join(report.clean(str(one)) for one in (found.kernel, (found.gpu or {}).get("name")) if one)
    mark = "  (simulated)" if simulated else ""
    lines = [f"{host}  {report.clean(done.unit)}  attention {report.clean(str(found.backend))}{mark}", where or "—", ""]
    lines += [f"{one.budget:5}  {one.verdict.value:13} {report.clean(one.reason)}" for one in found.budgets]
    lines += [f"Xid ({xid['whose']}): {report.clean(str(xid['text']))}" for xid in found.xids]
    lines += ["", "Not covered: " + "; ".join(map(report.clean, found.not_covered)) + "."]
    return "\n".join(lines)
