"""Users' requests that a trial answers before its verdict, by the engine's own counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

SKIPS_WARM_UP = "--skip-server-warmup"


class Ungated:
    """Counts for the start ``invocation()``, given each reading of that start's counter.

    The engine counts a request once it is over, ours and its own warm-up among them, so a reading less all that ours
    may be is a number of users' requests that is never too high; with none of ours on the way it is exact.
    """

    def __init__(self, invocation: Callable[[], str | None], sent: Callable[[], int], argv: Sequence[str]) -> None:
        self._invocation = invocation
        self._sent = sent
        self._warm_up = 0 if SKIPS_WARM_UP in argv else 1
        self._sent_before = 0
        self._most: int | None = None

    def begin(self) -> None:
        """The start of the trial: what was sent before went to another."""
        self._sent_before = self._sent()

    def read(self, invocation: str, counted: float) -> None:
        """One reading of a start's counter."""
        if invocation == self._invocation():
            users = round(counted) - self._warm_up - (self._sent() - self._sent_before)
            self._most = max(self._most or 0, users, 0)

    @property
    def count(self) -> int | None:
        """0 where no trial started; None where its counter was never read."""
        return 0 if self._invocation() is None else self._most
