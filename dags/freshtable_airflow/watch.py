"""Watches a run until it ends: polls its status and logs its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from freshtable_airflow.conversation import Conversation, Wait, get_progress
from freshtable_airflow.errors import GatewayUnavailable
from freshtable_airflow.request import RunAddress
from freshtable_airflow.run_status import Progress

FIRST_WAIT_S = 0.25
GROWTH = 1.5
UNKNOWN = Progress(status="UNKNOWN")


@dataclass(frozen=True)
class Terms:
    """How to watch a run.

    `until` is when to stop watching (seconds since 1970; None: the end of the run). `poll_interval_s` is the
    longest pause between polls, and `patience_s` is how long the gateway may be unreachable before the watch
    fails. The trigger reports nothing before `not_before` (seconds since 1970).
    """

    until: float | None
    poll_interval_s: float
    patience_s: float
    not_before: float = 0.0


def watch(
    run: RunAddress, terms: Terms, log: Callable[[str], None]
) -> Conversation[tuple[RunAddress, Progress]]:
    """Return the last progress of the run; it has not ended if the time is up.

    Raises GatewayUnavailable or GatewayRefused.
    """
    wait_s, logged, lost_at = min(FIRST_WAIT_S, terms.poll_interval_s), "", None
    while True:
        try:
            run, progress = yield from get_progress(run)
            line, lost_at = progress.line, None
        except GatewayUnavailable as error:
            progress, lost_at = UNKNOWN, lost_at or time.monotonic()
            if time.monotonic() - lost_at > terms.patience_s:
                raise
            line = f"{error} The run continues at the gateway; retrying for {terms.patience_s:.0f} s."
        if line != logged:
            log(line)
            logged = line
        if progress.ended or (terms.until is not None and time.time() >= terms.until):
            return run, progress
        yield Wait(wait_s)
        wait_s = min(wait_s * GROWTH, terms.poll_interval_s)
