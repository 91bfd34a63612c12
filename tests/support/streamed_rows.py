"""Streamed rows of a query: how they end, and their final state."""

from __future__ import annotations

from queue import Queue

import pyarrow as pa

from mt_core.base.rowset import PageForm
from mt_core.errors import MtError
from mt_core.spark.results.row_stream import StreamedRows

WAIT_S = 120.0


def ended(rows: StreamedRows) -> MtError | None:
    """Wait until the query has ended, and return its error or None."""
    errors = Queue[MtError | None]()
    rows.on_end(errors.put)
    return errors.get(timeout=WAIT_S)


def table_of(rows: StreamedRows, count: int = 10_000_000) -> pa.Table:
    """Return up to *count* rows of a query, if they have arrived."""
    return pa.ipc.open_stream(rows.encoded(0, count, PageForm.ARROW)).read_all()
