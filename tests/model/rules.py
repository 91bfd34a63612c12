"""The rules of the refresh protocol, each of which can be switched off, and the scenarios that they meet.

A rule is a condition or a step of the product's code. `tests/model/mutations.py` says which property breaks
without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.model.world import WHOLE, Parts, Points


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules that hold; by default all."""

    # Commits.
    main_is_compared: bool = True
    """A commit that moves main takes effect only if main is where its writer has read it."""
    answers_are_read: bool = True
    """After a commit without an answer, the worker reads the metadata again instead of giving up."""

    # Decide.
    rows_are_pinned: bool = True
    """All rows are read at the versions with which the run has decided."""
    decide_looks_for_later: bool = True
    """Decide ends the worker if a later claim has moved main."""
    decide_looks_for_itself: bool = True
    """Decide ends the run if it is published."""
    history_decides: bool = True
    """What has changed is known from the history of main, not from the ledger."""
    skip_compares_definition: bool = True
    """Rows of another definition have changed."""
    skip_respects_foreign: bool = True
    """Rows have changed if another writer has committed since they were written."""
    skip_is_per_partition: bool = True
    """A partition is compared with the snapshot that wrote it, not with the newest one."""

    # Publish.
    publish_looks_for_itself: bool = True
    """A publish looks whether the run, or its batch, is published."""
    attempts_look_at_history: bool = True
    """Attempts after the first look for the run among the ancestors of main, not only at the last run."""
    publish_looks_for_later: bool = True
    """A publish ends the worker if a later claim has moved main."""
    publish_needs_its_base: bool = True
    """Rows of some partitions are published only if main has the rows from which the run started."""
    recomputation_spares_runs: bool = True
    """A recomputation of all rows is published over commits of other writers, but not of other runs."""
    pending_keeps_its_base: bool = True
    """A pending snapshot follows the main that decide has read, also when it is repeated."""
    pending_is_repeated: bool = True
    """A pending snapshot whose number is taken gets the next one; the run does not decide again."""
    sent_files_are_kept: bool = True
    """The files of a pending snapshot are not deleted after a publish without an answer."""
    published_files_are_kept: bool = True
    """They are not deleted if the run is found published, also without such a publish."""

    # Close.
    close_moves_main: bool = True
    """A close is a snapshot on main; without this rule, it only looks."""
    close_after_no_answer: bool = True
    """A run closes if one of its publishes had no answer."""
    close_after_lost_claim: bool = True
    """A run closes if the claim before it was lost; without this rule, not even for its own attempts."""
    close_after_any_lost_claim: bool = True
    """It closes for the claims of other runs, too."""
    close_looks_for_itself: bool = True
    """A close ends the run as SUCCEEDED if it is published."""
    close_looks_for_later: bool = True
    """A close ends the worker if a later claim has moved main."""
    skip_closes_what_it_saw: bool = True
    """A run that is SKIPPED closes only while main is what it decided on; otherwise it decides again."""
    last_loss_closes: bool = True
    """After too many losses one more claim closes, and only then the run is FAILED."""

    # Compaction.
    compaction_needs_its_files: bool = True
    """A compaction goes on behind other publishes, unless one has removed a file that it has rewritten."""
    compaction_looks_for_itself: bool = True
    """A compaction whose commit has failed looks for its snapshot among the ancestors of main."""

    # Ledger.
    ledger_compares_claim: bool = True
    """A worker writes to the ledger only while it holds the run."""
    one_is_running: bool = True
    """A run is claimed only while no other run of the table is RUNNING."""
    keys_are_compared: bool = True
    """A request with the key of an earlier one is attached to its run."""
    coalesced_before_claim: bool = True
    """A request is coalesced only into a run that was never claimed."""
    canceled_before_claim: bool = True
    """Only a run that was never claimed is CANCELED by its requesters themselves."""
    suspended_covers_nothing: bool = True
    """A request that is skipped because the table is suspended leaves its schedule time due."""
    single_stays_single: bool = True
    """The retry of one schedule time takes no other that is due."""
    rebuild_stays_due: bool = True
    """After ALTER the whole table is due until a run of it has ended well."""

    # Maintenance.
    maintenance_commits_nothing: bool = True
    """Expiry and changes of the schema commit nothing for the protocol."""

    # Beside the last release.
    epoch_is_written: bool = True
    """Publish and close write the claim into the property that the last release compares."""
    branches_are_dropped: bool = True
    """Publish and close drop the branches that the last release has left."""


class Scenario(NamedTuple):
    """How often each event may happen. Workers may take their steps in any order."""

    name: str
    # Requests for schedule times that have passed, in any order and repeated; and such with a new key.
    ticks: int = 0
    clears: int = 0
    # REFRESH of a partition or of the table, ALTER … AS, SUSPEND (and RESUME at any time), cancels.
    refreshes: int = 0
    alters: int = 0
    suspends: int = 0
    cancels: int = 0
    # The source gets a new version, or returns to the one before.
    commits: int = 0
    rollbacks: int = 0
    # Another writer replaces a partition, or commits to a branch of its own; a compaction begins.
    foreigns: int = 0
    asides: int = 0
    compactions: int = 0
    # Expiry; an event only without the rule that it commits nothing.
    maintenances: int = 0
    # A worker dies; the lease of a live one lapses; its query fails.
    crashes: int = 0
    lapses: int = 0
    failures: int = 0
    # A commit has no answer: it has taken effect, or may still do so at any time; or it has taken effect, and
    # the answer is a conflict.
    unanswered: int = 0
    # Continuous runs.
    stretches: int = 0
    # Claims by a worker of the last release, on a catalog that compares the whole metadata.
    last_release: int = 0
    # The rest are no events.
    points: int = 2
    is_partitioned: bool = True
    # Whether runs apply changes to the rows of their base where they can, instead of writing all rows.
    is_incremental: bool = False
    # Whether reading and committing are two steps. (In one, a commit fails only if it has no answer.)
    is_split: bool = False
    # Partitions of which each computation fails.
    poison: Parts = 0
    # Claims that may lose their process before the run fails: 3 in the product.
    most_losses: int = 2
    # Tries after another writer's commit: 3 in the product.
    most_restarts: int = 1
    most_workers: int = 2


EVENTS = Scenario._fields[1 : Scenario._fields.index("points")]


class Case:
    """Rules in a scenario."""

    def __init__(self, rules: Rules, scenario: Scenario) -> None:
        self.rules, self.scenario = rules, scenario
        self.budget = tuple(int(getattr(scenario, event)) for event in EVENTS)
        # One more schedule time passes on the way to rest.
        self.width = scenario.points + 1 if scenario.is_partitioned else 1
        self.all: Parts = WHOLE | ((1 << self.width) - 1)
        self.is_strict = scenario.last_release > 0
        self.is_continuous = scenario.stretches > 0

    def parts_of(self, points: Points) -> Parts:
        """Return the partitions of schedule times."""
        if not self.scenario.is_partitioned:
            return self.all if points else 0
        return points
