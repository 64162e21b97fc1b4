"""What stops a command on the way to a host: one sentence and an exit code for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ddtune.cli import report

NOT_JUDGED = frozenset(("unsupported_unit", "read_only", "not_adopted", "drift", "busy", "unknown"))


@contextmanager
def ending(host: str, *, as_json: bool, **refused: Any) -> Iterator[None]:
    """Ends the command: 2 when no one service or profile is meant, 7 refused, 8 unreachable, 9 the engine is gone.

    ``refused`` are further fields of a refusal's JSON.
    """
    from ddtune.gate.sending import EngineGone
    from ddtune.host.errors import HelperFailed, HelperRefused, Unreachable
    from ddtune.rollout.errors import Refused, UnknownProfile
    from ddtune.rollout.units import Ambiguous

    try:
        yield
    except (Ambiguous, UnknownProfile) as error:
        report.fail(error.message, report.USAGE, cause="usage", as_json=as_json, host=host)
    except EngineGone as error:
        message = f"the service on {host} does not answer: {error}"
        report.fail(message, report.CHECK_FAILED, cause="engine_dead", as_json=as_json, host=host)
    except (Refused, HelperRefused, HelperFailed) as error:
        report.fail(error.message, report.REFUSED, cause=error.cause, as_json=as_json, host=host, **refused)
    except Unreachable as error:
        report.fail(error.message, report.UNREACHABLE, cause="unreachable", as_json=as_json, host=host)


@contextmanager
def judged(host: str, *, as_json: bool) -> Iterator[None]:
    """As ``ending``, but what a gate refused ends with 9, and a refusing helper's difference is shown."""
    from ddtune.host.errors import HelperRefused
    from ddtune.rollout.errors import Refused

    with ending(host, as_json=as_json):
        try:
            yield
        except Refused as error:
            code = report.REFUSED if error.cause in NOT_JUDGED else report.CHECK_FAILED
            report.fail(error.message, code, cause=error.cause, as_json=as_json, host=host)
        except HelperRefused as error:
            if not as_json:
                _show_difference(error.detail)
            detail = dict(error.detail)
            report.fail(error.message, report.REFUSED, cause=error.cause, as_json=as_json, host=host, detail=detail)


def _show_difference(detail: dict[str, Any]) -> None:
    for name, words in (("on_disk", "the unit says"), ("running", "what runs  ")):
        if detail.get(name):
            report.say(f"{words}: {report.clean(str(detail[name]))}", err=True)
