"""The scenarios that are searched, by what they are about."""

from __future__ import annotations

from tests.model.rules import Scenario

_REFRESHES = (
    Scenario("ticks", ticks=3, commits=1, crashes=1, lapses=1, maintenances=1),
    Scenario("zombies", ticks=1, refreshes=1, commits=1, lapses=2, points=1),
    Scenario("manual", refreshes=2, commits=1, lapses=1, crashes=1, points=1),
    Scenario("rollback", ticks=2, clears=1, commits=1, rollbacks=1, lapses=1, points=1),
    Scenario("unanswered", ticks=2, commits=1, lapses=1, unanswered=1, points=1, cancels=1, failures=1),
    Scenario("unanswered twice", ticks=1, lapses=1, unanswered=2, points=1, cancels=1, commits=1),
    Scenario("attempts", ticks=1, crashes=1, lapses=2, cancels=1, commits=1, points=1, unanswered=1),
    Scenario("foreign", ticks=2, clears=1, commits=1, foreigns=1),
    Scenario("foreign, zombie", ticks=1, refreshes=1, foreigns=2, lapses=1, points=1),
    Scenario("alter", ticks=1, alters=1, crashes=1, lapses=1, failures=1, commits=1, points=1),
    Scenario("suspend", ticks=2, suspends=1, lapses=1, commits=1, cancels=1, points=1),
    Scenario("cancel", ticks=1, refreshes=1, cancels=2, lapses=1, points=1, unanswered=1),
    Scenario("failure", ticks=3, failures=1, crashes=1),
    Scenario("poison", ticks=2, poison=1, crashes=1, lapses=1),
    Scenario("poison, alter", ticks=1, poison=1, alters=1, crashes=1),
    Scenario("single, zombie", ticks=2, failures=1, refreshes=1, lapses=1),
    Scenario("numbers", ticks=1, refreshes=1, asides=2, foreigns=1, lapses=1, points=1),
    Scenario("numbers, unanswered", ticks=1, asides=1, lapses=1, unanswered=1, cancels=1, points=1),
)
_WHOLE = (
    Scenario("whole", is_partitioned=False, ticks=2, commits=1, rollbacks=1, unanswered=1, lapses=1),
    Scenario(
        "whole, alter", is_partitioned=False, ticks=1, alters=1, suspends=1, cancels=1, lapses=1, points=1
    ),
    Scenario("whole, foreign", is_partitioned=False, ticks=2, commits=1, foreigns=1, lapses=1),
    Scenario("whole, zombies", is_partitioned=False, ticks=1, refreshes=2, foreigns=1, lapses=2, points=1),
)
_CHANGES = (
    Scenario(
        "changes",
        is_incremental=True,
        is_partitioned=False,
        ticks=2,
        commits=1,
        foreigns=1,
        lapses=1,
        points=1,
    ),
    Scenario(
        "changes, unanswered",
        is_incremental=True,
        is_partitioned=False,
        ticks=2,
        commits=1,
        asides=1,
        unanswered=1,
        lapses=1,
        points=1,
    ),
    Scenario(
        "changes, compaction",
        is_incremental=True,
        is_partitioned=False,
        ticks=2,
        clears=1,
        commits=1,
        compactions=1,
        lapses=1,
        points=1,
    ),
    Scenario(
        "changes, attempts",
        is_incremental=True,
        is_partitioned=False,
        ticks=1,
        crashes=1,
        lapses=1,
        foreigns=1,
        cancels=1,
        unanswered=1,
        points=1,
    ),
)
_CONTINUOUS = (
    Scenario("continuous", stretches=2, commits=2, crashes=1, lapses=1, points=1, is_partitioned=False),
    Scenario(
        "continuous, rollback", stretches=2, commits=1, rollbacks=1, lapses=1, points=1, is_partitioned=False
    ),
    Scenario(
        "continuous, unanswered",
        stretches=2,
        commits=1,
        lapses=1,
        unanswered=1,
        points=1,
        is_partitioned=False,
    ),
    Scenario("continuous, zombies", stretches=3, commits=1, lapses=2, points=1, is_partitioned=False),
    Scenario(
        "continuous, foreign", stretches=2, commits=1, foreigns=1, lapses=1, points=1, is_partitioned=False
    ),
    Scenario(
        "continuous, refresh", stretches=2, commits=1, refreshes=1, lapses=1, points=1, is_partitioned=False
    ),
    Scenario(
        "continuous, changes",
        is_incremental=True,
        stretches=2,
        commits=1,
        rollbacks=1,
        lapses=1,
        unanswered=1,
        points=1,
        is_partitioned=False,
    ),
    Scenario(
        "continuous, compaction",
        stretches=1,
        commits=2,
        compactions=1,
        crashes=1,
        points=1,
        is_partitioned=False,
    ),
)
_COMPACTED = (
    Scenario("compaction", refreshes=2, commits=1, compactions=1, crashes=1, points=1),
    Scenario("compaction, zombie", ticks=1, refreshes=1, commits=1, compactions=1, lapses=1, points=1),
    Scenario("compaction, foreign", ticks=1, refreshes=1, compactions=1, foreigns=1, points=1),
    Scenario("compaction, numbers", refreshes=2, compactions=1, asides=1, points=1),
    Scenario("compactions", refreshes=2, compactions=2, points=1, unanswered=1, most_workers=1),
    Scenario("compaction, unanswered", refreshes=2, compactions=1, unanswered=1, points=1, lapses=1),
)
_SPLIT = (
    Scenario("split", is_split=True, ticks=2, commits=1, lapses=1, points=1, unanswered=1),
    Scenario("split, foreign", is_split=True, ticks=2, foreigns=1, lapses=1),
    Scenario("split, rollback", is_split=True, ticks=2, clears=1, commits=1, rollbacks=1, lapses=1, points=1),
    Scenario(
        "split, continuous",
        is_split=True,
        stretches=2,
        commits=1,
        rollbacks=1,
        lapses=1,
        unanswered=1,
        points=1,
        is_partitioned=False,
    ),
    Scenario(
        "split, whole",
        is_split=True,
        is_partitioned=False,
        ticks=1,
        refreshes=1,
        foreigns=1,
        lapses=1,
        points=1,
    ),
    Scenario(
        "split, changes",
        is_split=True,
        is_incremental=True,
        is_partitioned=False,
        ticks=2,
        foreigns=1,
        commits=1,
        lapses=1,
        points=1,
    ),
    Scenario("split, numbers", is_split=True, ticks=1, refreshes=1, asides=1, foreigns=1, lapses=1, points=1),
    Scenario("split, compaction", is_split=True, refreshes=2, compactions=1, foreigns=1, points=1),
)
_BESIDE = (
    Scenario("last release", last_release=1, ticks=2, commits=1, lapses=1, crashes=1, points=1),
    Scenario(
        "last release, changes", last_release=1, is_incremental=True, ticks=2, commits=1, lapses=1, points=1
    ),
    Scenario("last release, zombies", last_release=1, ticks=1, refreshes=1, lapses=2, commits=1, points=1),
    Scenario(
        "last release, unanswered", last_release=1, ticks=1, refreshes=1, lapses=1, unanswered=1, points=1
    ),
    Scenario("last release, foreign", last_release=2, ticks=1, refreshes=1, lapses=1, foreigns=1, points=1),
    Scenario("last release, compaction", last_release=1, refreshes=2, compactions=1, lapses=1, points=1),
    Scenario(
        "last release, rollback",
        last_release=1,
        ticks=2,
        clears=1,
        commits=1,
        rollbacks=1,
        lapses=1,
        points=1,
    ),
    # No source is rolled back here: a continuous run of the last release that finds nothing changed does not
    # close the table, so that one that was lost before may still publish other rows.
    Scenario(
        "last release, continuous",
        last_release=1,
        stretches=2,
        commits=2,
        lapses=1,
        points=1,
        is_partitioned=False,
    ),
    Scenario(
        "last release, continuous, changes",
        last_release=1,
        is_incremental=True,
        stretches=2,
        commits=2,
        lapses=1,
        unanswered=1,
        points=1,
        is_partitioned=False,
    ),
)
SCENARIOS = (*_REFRESHES, *_WHOLE, *_CHANGES, *_CONTINUOUS, *_COMPACTED, *_SPLIT, *_BESIDE)
