"""Tables of streams: which detached job reads or writes a table, so that nobody drops it below the job."""

from __future__ import annotations

from collections.abc import Callable

from mt_core.errors import TableBusy
from mt_core.identifiers import display_name
from mt_core.model.stream import TableName
from mt_core.tables.registry import Transaction


def check_no_stream(tx: Transaction, drops: Callable[[TableName], bool], statement: str) -> None:
    """Raise TableBusy naming the job if *statement* *drops* a table that a detached job reads or writes until it ends."""
    for job in tx.jobs.streams():
        definition = job.definition
        if definition is None:
            continue
        for verb, names in (("written", definition.writes), ("read", definition.reads)):
            table = next(filter(drops, names), None)
            if table is not None:
                name = display_name(table)
                raise TableBusy(
                    f"{statement}: {name} is {verb} by streaming job {job.job_id} ({job.name}); STOP JOB '{job.job_id}' first.",
                    table=name,
                    job=job.job_id,
                )
