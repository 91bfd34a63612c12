"""What the refresh protocol promises: the properties that hold after every event and at rest.

Their numbers are those of docs/design/refresh-protocol.md.
"""

from __future__ import annotations

from enum import IntEnum


class Property(IntEnum):
    """A promise of the protocol."""

    ONE_VERSION = 1
    """The rows that a run publishes are its query over one version of its sources."""
    FORWARD = 2
    """What is recorded as published is; no rows return to older sources or lose those of another writer."""
    ONCE = 3
    """No run is published twice, or although it is recorded otherwise."""
    ONE_RUNNING = 4
    """At most one run of the table is RUNNING."""
    SKIP_IS_RIGHT = 5
    """The table is as fresh as if a refresh that was skipped had happened."""
    REPLACED_IS_SILENT = 6
    """A worker that was replaced changes neither the table nor the ledger."""
    HOLDER_GOES_ON = 7
    """A worker that holds its run is not pushed aside."""
    ONE_RUN_PER_KEY = 8
    """A request that is repeated with its key makes one run."""
    ENDS = 9
    """Every request ends, no branch outlives the next publish, every schedule time is covered in the end."""
    STATE_OF_MAIN = 10
    """A state that a run reads is that of the rows on main."""
    STATE_IS_KEPT = 11
    """A run finds the state of the last publish, and after a rollback that of an earlier one."""


class Violation(Exception):
    """Raised if a property does not hold."""

    def __init__(self, broken: Property, what: str) -> None:
        super().__init__(broken, what)
        self.broken, self.what = broken, what

    def __str__(self) -> str:
        return f"{self.broken.value} {self.broken.name}: {self.what}"


def must(holds: bool, expected: Property, what: str, *facts: object) -> None:
    """Raise Violation unless the condition holds; *facts* complete the text."""
    if not holds:
        raise Violation(expected, " ".join((what, *map(str, facts))))
