"""A visit: an armed transaction that asks another release for reference answers and always ends on stable."""

from __future__ import annotations

from ddtune.gate import golden as asking
from ddtune.gate.golden import Golden
from ddtune.rollout import golden
from ddtune.rollout.errors import TrialFailed
from ddtune.rollout.transaction import Transaction

AR = "ar"


class Visit(Transaction):
    """As a transaction up to the ready engine; then it asks, keeps the answers, and asks the host to go back.

    The host refuses to confirm a visit, whoever asks. ``made`` is there once the answers are kept.
    """

    made: Golden | None = None

    async def _judge_trial(self) -> None:
        prepared, link = self._prepared, self._link
        with self._phase("golden", own=False, text=f"asking {prepared.plan.target.profile} for reference answers"):
            try:
                made = await asking.measure(
                    self._judge.send,
                    prepared.sizes,
                    key=prepared.golden_key,
                    nonce=f"golden-{prepared.op}",
                    source=AR,
                    profile=prepared.plan.target.profile,
                    release=prepared.plan.target.release,
                    made_by=golden.by(),
                    # Nobody's cache yet: this start is minutes old and ends with the visit.
                    flush=True,
                    tell=self._told,
                )
            except ValueError as error:
                raise TrialFailed("wrong_output", str(error)) from error
            await golden.put(link, made)
        self.made = made
        self._took(await link.call("abort", op=prepared.op, cause="operator_request"))

    def _told(self, text: str) -> None:
        self._tell("golden", 0.0, text)
