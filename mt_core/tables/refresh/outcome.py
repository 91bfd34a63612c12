"""How an attempt ends: with an outcome for the ledger, or silently because it has lost its claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mt_core.errors import DefinitionInvalid, MtError, QueryFailed
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import TableIdentifier
from mt_core.tables.definition.shape import COLUMNS_CHANGED, with_way_out
from mt_core.tables.settings import TIMEOUT_KEY

# The stack trace of a stack overflow in Spark has more than 100,000 characters.
CAUSE_LENGTH = 20_000


class ClaimLost(Exception):
    """Raised if the attempt has lost its claim on the run; it must then write nothing."""


@dataclass(eq=False, kw_only=True)
class RunEnded(Exception):
    """Raised to end the run with *status*; the ledger also records the columns in *changes*."""

    status: RunStatus
    changes: Mapping[str, Any] = field(default_factory=dict)


def is_of_query(error: MtError) -> bool:
    """Return whether the query, or the data that it reads, caused *error*.

    An error without an error condition of Spark, or with a condition such as FAILED_JDBC, may be caused by an
    unavailable source.
    """
    match error:
        case QueryFailed():
            return error.error_class is not None and not error.error_class.startswith("FAILED_")
        case _:
            return isinstance(error, DefinitionInvalid)


def timed_out(run: RefreshRun, table: TableIdentifier) -> RunEnded:
    """Return the outcome of a run of *table* that exceeded its timeout."""
    seconds = (run.deadline - run.started_at).total_seconds() if run.deadline and run.started_at else 0
    text = (
        f"Refresh of {table} took longer than {seconds:.0f} s and was stopped; "
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
