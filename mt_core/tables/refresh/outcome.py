"""How an attempt ends: with an outcome for the ledger, or without a word because another
worker holds its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mt_core.errors import DefinitionInvalid, MtError, QueryFailed
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.definition.shape import COLUMNS_CHANGED, with_way_out
from mt_core.tables.settings import TIMEOUT_KEY

# Spark's trace of a stack that overflowed has some hundred thousand characters.
CAUSE_LENGTH = 20_000


class GivenUp(Exception):
    """The attempt does not hold its run any more: write nothing anywhere."""


@dataclass(eq=False, kw_only=True)
class RunEnded(Exception):
    """The run ends: its status, and what the ledger records with it."""

    status: RunStatus
    changes: Mapping[str, Any] = field(default_factory=dict)


def is_of_query(error: MtError) -> bool:
    """Whether *error* is one of the query, or of the data that it reads.

    An error without a condition of Spark's, or with FAILED_JDBC and the like,
    may be that of a source that is away.
    """
    match error:
        case QueryFailed():
            return error.error_class is not None and not error.error_class.startswith("FAILED_")
        case _:
            return isinstance(error, DefinitionInvalid)


def timed_out(run: RefreshRun, table: TableIdentifier) -> RunEnded:
    """Return the outcome of a run of *table* that took longer than it may."""
    seconds = (run.deadline - run.started_at).total_seconds() if run.deadline and run.started_at else 0
    text = (
        f"Refresh of {table} took longer than {seconds:.0f} s and was ended; "
        f"make its query cheaper, or raise {TIMEOUT_KEY}, for this table with CREATE "
        f"OR ALTER MATERIALIZED TABLE … WITH ('{TIMEOUT_KEY}' = '…')."
    )
    return RunEnded(status=RunStatus.FAILED, changes={"error": text})


def failed(error: MtError, table: TableIdentifier) -> RunEnded:
    """Return the outcome of a run of *table* that failed with *error*."""
    return RunEnded(
        status=RunStatus.FAILED,
        changes={
            "error": with_way_out(error, table),
            "cause": str(error.__cause__)[:CAUSE_LENGTH] if error.__cause__ else None,
            "by_query": is_of_query(error),
            "broken": isinstance(error, DefinitionInvalid)
            or (isinstance(error, QueryFailed) and error.error_class == COLUMNS_CHANGED),
        },
    )
