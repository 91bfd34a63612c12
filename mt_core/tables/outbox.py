"""The outbox: delivers the registry's notices to a receiver, at least once and in their order.

A notice is written by the transaction that it is about, so it exists exactly if that transaction was
committed. It is deleted only after the receiver has accepted it. A process that is killed in between delivers
it again after its restart, so a receiver must ignore repetitions: the number of a notice identifies it. A
notice that the receiver refuses is tried again, and those behind it wait. Notices are written only while
`Registry.keeps_notices` is set, which the outbox does; a gateway without a receiver has none.

The events of this process (`mt_core.tables.events`) are faster and free, but end with it. The outbox is for
what must arrive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from mt_core.base.background import error_of
from mt_core.base.backoff import pause_after
from mt_core.base.secrets import without_passwords
from mt_core.clock import Clock
from mt_core.tables.events import Fact, RunEnded
from mt_core.tables.registry import Notice, Registry, Transaction, in_transaction
from mt_core.tables.repeated_errors import RepeatedErrors

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(minutes=10)
LOOK_AGAIN = timedelta(seconds=30)
_AT_ONCE = 100


class Outbox:
    """Delivers notices to *receive*, which accepts a notice by returning and refuses it by raising.

    As a listener of `Events` it reads the registry as soon as a run has ended, otherwise every `LOOK_AGAIN`.
    """

    def __init__(self, registry: Registry, clock: Clock, receive: Callable[[Notice], object]) -> None:
        self._registry, self._clock, self._receive = registry, clock, receive
        self._failures, self._errors = 0, RepeatedErrors()
        # The elapsed time before which nothing is delivered, and whether a run has ended since.
        self._look_at, self._woken = clock.elapsed(), True
        registry.keeps_notices = True

    def __call__(self, fact: Fact, /) -> None:
        if isinstance(fact, RunEnded):
            self._woken = True

    def deliver_due(self) -> None:
        """Deliver all notices up to the first that is refused, if it is time to.

        Only one thread at a time may call this.
        """
        is_early = self._clock.elapsed() < self._look_at
        if is_early and (self._failures or not self._woken):
            return
        self._woken = False
        while notices := self._oldest():
            for notice in notices:
                refusal = error_of(partial(self._receive, notice))
                if refusal is not None:
                    self._postpone(notice, refusal)
                    return
                self._failures = 0
                in_transaction(self._registry, partial(_delete, notice.number))
        self._look_at = self._clock.elapsed() + LOOK_AGAIN

    def _oldest(self) -> list[Notice]:
        with self._registry.reading() as tx:
            return [*tx.notices.oldest(_AT_ONCE)]

    def _postpone(self, notice: Notice, refusal: Exception) -> None:
        self._failures += 1
        pause = pause_after(self._failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        self._look_at = self._clock.elapsed() + pause
        error = self._errors.text(notice.kind, without_passwords(str(refusal) or type(refusal).__name__))
        facts = {"action": "notice_refused", "notice": notice.number}
        log.warning("notice %s (%s) was refused: %s", notice.number, notice.kind, error, extra=facts)


def _delete(number: int, tx: Transaction) -> None:
    tx.notices.delete([number])
