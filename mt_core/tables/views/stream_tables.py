"""Tables of streams: prevents dropping a table that a detached job reads or writes."""

from __future__ import annotations

from collections.abc import Callable

from mt_core.base.identifiers import display_name
from mt_core.errors import TableBusy
from mt_core.model.stream import TableName
from mt_core.tables.registry import Transaction


def check_no_stream(
    tx: Transaction, drops: Callable[[TableName], bool], statement: str, *, ends_kept: bool = False
) -> None:
    """Raise TableBusy if a detached job that has not ended reads or writes a table that *statement* *drops*.

    With *ends_kept*, the jobs that maintain dropped materialized tables are ignored, because the statement
    ends them.
    """
    for job in tx.jobs.streams():
        definition = job.definition
        if definition is None or (ends_kept and definition.keeps and any(map(drops, definition.writes))):
            continue
        way_out = f"STOP JOB '{job.job_id}' first"
        if definition.keeps is not None:
            way_out = f"DROP MATERIALIZED TABLE {job.target} first, which the job maintains"
        for verb, names in (("written", definition.writes), ("read", definition.reads)):
            table = next(filter(drops, names), None)
            if table is not None:
                name = display_name(table)
                raise TableBusy(
                    f"{statement}: {name} is {verb} by streaming job {job.job_id} ({job.name}); {way_out}.",
                    table=name,
                    job=job.job_id,
                )
