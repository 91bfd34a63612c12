"""What each rule is needed for: the property that breaks without it, in a small scenario that shows it.

The protocol with all rules holds in the same scenario. Without one of the rules in `SPARE` alone nothing
breaks in any scenario, because other rules do their work later or at a higher cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tests.model.properties import Property
from tests.model.protocol import RefreshProtocol
from tests.model.rules import Rules, Scenario
from tests.model.search import Found, explore


class Mutation(NamedTuple):
    """The protocol without one rule, or without some that do the same work."""

    without: tuple[str, ...]
    broken: Property
    scenario: Scenario


def searched(mutation: Mutation) -> Found:
    """Search the scenario of a mutation."""
    rules = replace(Rules(), **dict.fromkeys(mutation.without, False))
    return explore(RefreshProtocol(mutation.scenario, rules))


def _mutation(*without: str, breaks: Property, **events: object) -> Mutation:
    name = f"without {' and '.join(without)}"
    return Mutation(without, breaks, Scenario(name, **{"points": 1, **events}))  # type: ignore[arg-type]


MUTATIONS = (
    _mutation("main_is_compared", breaks=Property.ONCE, refreshes=1, unanswered=1, most_workers=1),
    _mutation("rows_are_pinned", breaks=Property.ONE_VERSION, refreshes=1, commits=1, most_workers=1),
    _mutation(
        "history_decides",
        breaks=Property.SKIP_IS_RIGHT,
        ticks=2,
        clears=1,
        foreigns=1,
        points=2,
        most_workers=1,
    ),
    _mutation(
        "skip_compares_definition",
        breaks=Property.SKIP_IS_RIGHT,
        ticks=1,
        alters=1,
        is_partitioned=False,
        most_workers=1,
    ),
    _mutation(
        "skip_respects_foreign", breaks=Property.SKIP_IS_RIGHT, ticks=1, clears=1, foreigns=1, most_workers=1
    ),
    _mutation("skip_is_per_partition", breaks=Property.SKIP_IS_RIGHT, ticks=2, points=2, most_workers=1),
    _mutation("publish_looks_for_itself", breaks=Property.FORWARD, refreshes=1, unanswered=1, most_workers=1),
    _mutation(
        "attempts_look_at_history",
        breaks=Property.ONCE,
        ticks=1,
        failures=1,
        refreshes=1,
        crashes=1,
        points=2,
        most_workers=1,
    ),
    _mutation("publish_looks_for_later", breaks=Property.REPLACED_IS_SILENT, ticks=1, lapses=1, crashes=1),
    _mutation(
        "publish_needs_its_base",
        breaks=Property.FORWARD,
        ticks=1,
        clears=1,
        foreigns=1,
        most_workers=1,
        points=2,
    ),
    _mutation(
        "recomputation_spares_runs",
        breaks=Property.ONCE,
        ticks=1,
        failures=1,
        refreshes=1,
        lapses=1,
        points=2,
    ),
    _mutation("close_moves_main", breaks=Property.ONCE, ticks=1, unanswered=1, cancels=1, most_workers=1),
    _mutation(
        "close_after_no_answer", breaks=Property.ONCE, ticks=1, unanswered=1, cancels=1, most_workers=1
    ),
    _mutation("close_after_lost_claim", breaks=Property.ONCE, ticks=1, lapses=1, cancels=1),
    _mutation(
        "close_after_any_lost_claim",
        breaks=Property.SKIP_IS_RIGHT,
        stretches=3,
        commits=1,
        rollbacks=1,
        lapses=1,
        is_partitioned=False,
    ),
    _mutation(
        "close_looks_for_itself", breaks=Property.ONCE, ticks=1, unanswered=1, cancels=1, most_workers=1
    ),
    _mutation(
        "close_looks_for_later", breaks=Property.REPLACED_IS_SILENT, ticks=1, lapses=2, refreshes=1, cancels=1
    ),
    _mutation(
        "skip_closes_what_it_saw",
        breaks=Property.SKIP_IS_RIGHT,
        stretches=3,
        commits=1,
        rollbacks=1,
        lapses=1,
        is_partitioned=False,
    ),
    _mutation("last_loss_closes", breaks=Property.ONCE, ticks=1, lapses=2),
    _mutation(
        "pending_keeps_its_base",
        breaks=Property.ONE_VERSION,
        refreshes=2,
        compactions=1,
        most_workers=1,
    ),
    _mutation(
        "sent_files_are_kept", breaks=Property.FORWARD, ticks=1, unanswered=1, cancels=1, most_workers=1
    ),
    _mutation("published_files_are_kept", breaks=Property.FORWARD, ticks=1, unanswered=1, most_workers=1),
    _mutation(
        "compaction_needs_its_files",
        breaks=Property.FORWARD,
        ticks=1,
        compactions=1,
        foreigns=1,
        most_workers=1,
    ),
    _mutation(
        "compaction_looks_for_itself",
        breaks=Property.FORWARD,
        ticks=1,
        compactions=1,
        foreigns=1,
        unanswered=1,
        points=2,
        most_workers=1,
    ),
    _mutation("ledger_compares_claim", breaks=Property.REPLACED_IS_SILENT, ticks=1, lapses=1),
    _mutation("one_is_running", breaks=Property.ONE_RUNNING, ticks=1, refreshes=1),
    _mutation("keys_are_compared", breaks=Property.ONE_RUN_PER_KEY, ticks=2),
    _mutation("coalesced_before_claim", breaks=Property.SKIP_IS_RIGHT, refreshes=2, crashes=1, points=2),
    _mutation("canceled_before_claim", breaks=Property.ONCE, ticks=1, crashes=1, cancels=1),
    _mutation("suspended_covers_nothing", breaks=Property.ENDS, ticks=1, suspends=1, most_workers=1),
    _mutation("single_stays_single", breaks=Property.ENDS, ticks=2, poison=1, points=2, most_workers=1),
    _mutation(
        "answers_are_read",
        "close_after_no_answer",
        breaks=Property.ONCE,
        ticks=1,
        unanswered=1,
        most_workers=1,
    ),
    _mutation("rebuild_stays_due", breaks=Property.ENDS, ticks=1, alters=1, failures=1, most_workers=1),
    _mutation(
        "maintenance_commits_nothing",
        breaks=Property.HOLDER_GOES_ON,
        ticks=1,
        maintenances=1,
        most_workers=1,
    ),
    _mutation(
        "epoch_is_written", breaks=Property.REPLACED_IS_SILENT, ticks=1, refreshes=1, lapses=1, last_release=1
    ),
    _mutation("branches_are_dropped", breaks=Property.ENDS, ticks=1, last_release=1, most_workers=1),
)
SPARE = (
    "answers_are_read",
    "decide_looks_for_later",
    "decide_looks_for_itself",
    "pending_is_repeated",
)
