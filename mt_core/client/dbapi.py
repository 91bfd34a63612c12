"""A PEP 249 driver for the gateway: connections and cursors, and the standard's exceptions and type objects.

PEP 249 assumes a transactional database with short results, but the gateway has neither transactions nor
bounded results. A connection is therefore a gateway session in which every statement commits itself: `commit`
does nothing and `rollback` raises NotSupportedError. `execute` returns when the first page of the result
arrives. Later pages are fetched as the program reads rows, so a result need not fit in memory.
`table.dml-sync` makes `execute` wait for writes, because programs expect to see their effect afterwards.

The rows of a changelog amend each other, so fetching them as plain rows would be wrong. If `is_changelog` is
true, only `fetch_changes` can read them. Pages after the first arrive as Arrow if pyarrow is installed and
all column types convert to the same Python objects as from JSON. A program can observe this only by the
speed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import tzinfo
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import httpx

from mt_core.base.identifiers import sql_name
from mt_core.base.rowset import ROW_KIND, Column, LogicalType, RowKind
from mt_core.base.tokens import significant
from mt_core.client.exceptions import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    translating,
)
from mt_core.client.http import GatewayClient
from mt_core.client.insert import insert_batches
from mt_core.client.literals import fill_in
from mt_core.client.pages import ResultPage
from mt_core.client.plans import CompiledPlan, plan_name
from mt_core.client.reader import ARROW_ROOTS, Page, PageReader, Row, needing
from mt_core.client.session import Closing
from mt_core.client.type_objects import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Description,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    TypeObject,
    description_of,
)
from mt_core.client.values import rows_converter, zone_for
from mt_core.client.writes import is_of_a_write
from mt_core.errors import GatewayError

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "CompiledPlan",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeObject",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

DEFAULT_URL = "http://127.0.0.1:8083"
# This makes execute() wait until a write has completed.
SESSION_PROPERTIES = {"table.dml-sync": "true"}

# ------------------------------------------------------------------------------------------------ connections


def connect(
    url: str = DEFAULT_URL,
    *,
    token: str | None = None,
    catalog: str | None = None,
    schema: str | None = None,
    properties: Mapping[str, str] | None = None,
    transport: httpx.BaseTransport | None = None,
) -> Connection:
    """Open a session on the gateway at *url*, in *catalog* and *schema* if given.

    *properties* are session properties in addition to `SESSION_PROPERTIES`.

    Raises OperationalError.
    """
    path = sql_name(name for name in (catalog, schema) if name is not None)
    place = f"USE {path}" if schema is not None else f"SET CATALOG {path}" if catalog is not None else None
    client = GatewayClient(url, token, exact=True, transport=transport)
    try:
        with translating():
            client.open_session(
                properties={**SESSION_PROPERTIES, **(properties or {})},
                setup=() if place is None else (place,),
            )
    except Error:
        client.close()
        raise
    return Connection(client)


class Connection(Closing):
    """A session on the gateway. Threads may share it; their statements run one after the other.

    `timeout_s` and `max_rows` are the initial values of new cursors.
    """

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError, InternalError = (
        DataError,
        OperationalError,
        IntegrityError,
        InternalError,
    )
    ProgrammingError, NotSupportedError = ProgrammingError, NotSupportedError

    def __init__(self, client: GatewayClient) -> None:
        self._client: GatewayClient | None = client
        self.timeout_s: float | None = None
        self.max_rows: int | None = None

    @property
    def client(self) -> GatewayClient:
        """The client that sends the requests. Raises InterfaceError if the connection is closed."""
        if self._client is None:
            raise InterfaceError("The connection is closed; connect() again.")
        return self._client

    def cursor(self) -> Cursor:
        _ = self.client
        return Cursor(self)

    def compile_plan(self, statement: str) -> CompiledPlan:
        """Compile an INSERT or a STATEMENT SET without starting it. Raises the error of COMPILE PLAN."""
        name = plan_name("plan")
        with self.cursor() as cursor:
            cursor.execute(f"COMPILE PLAN '{name}' FOR {statement}")
        with translating():
            return CompiledPlan(self.client, name, self.client.plan(name))

    def load_plan(self, source: str | os.PathLike[str]) -> CompiledPlan:
        """Return the plan in a local file, or in a string that begins with `{`.

        Raises OSError, and ProgrammingError with the position if the text is not a plan.
        """
        if isinstance(source, str) and source.lstrip().startswith("{"):
            name, text = plan_name("plan"), source
        else:
            name, text = plan_name(Path(source).stem), Path(source).read_text(encoding="utf-8")
        with translating():
            self.client.store_plan(name, text)
        return CompiledPlan(self.client, name, text)

    def ping(self) -> None:
        """Check that the session exists. Raises OperationalError."""
        with translating():
            self.client.properties()

    def commit(self) -> None:
        """Do nothing, because every statement commits itself."""
        _ = self.client

    def rollback(self) -> NoReturn:
        raise NotSupportedError("There are no transactions: every statement commits itself.")

    def close(self) -> None:
        """Close the session. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


# ---------------------------------------------------------------------------------------------------- cursors


class Cursor(Closing):
    """Runs one statement at a time. Rows are fetched from the gateway as the program reads them.

    `timeout_s` limits the time of a statement (OperationalError), and `max_rows` the number of rows that can
    be fetched; None means no limit. `columns` are the columns with their complete types, which `description`
    abbreviates; it is empty without a result. If `is_changelog` is true, only `fetch_changes` can read the
    rows.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.timeout_s, self.max_rows = connection.timeout_s, connection.max_rows
        self.arraysize = 1
        self.description: list[Description] | None = None
        self.warnings: tuple[str, ...] = ()
        self.job_id: str | None = None
        self.lastrowid = None
        self.rowcount = -1
        self.rownumber: int | None = None
        self.columns: tuple[Column, ...] = ()
        self.is_changelog = False
        self._operation: str | None = None
        self._reader: PageReader | None = None
        self._is_query = False
        self._closed, self._to_cancel = False, False

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchone, None)

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Self:
        """Run a statement and wait for its first rows. *parameters* replace the `?` markers."""
        client = self._ready()
        with translating():
            statement = operation if parameters is None else fill_in(operation, parameters)
            _refuse_hidden_zone(statement)
            self._operation = client.execute(statement, timeout_s=self.timeout_s)
            if self._to_cancel:
                client.cancel(self._operation)
            pages = client.pages(self._operation)
            try:
                first = next(pages)
            except KeyboardInterrupt:
                self.cancel()
                raise
            self.warnings, self.job_id = first.warnings, first.job_id
            self.rowcount = -1 if first.affected_rows is None else first.affected_rows
            if first.has_content and not is_of_a_write(first):
                zone = zone_for(first.columns, client.properties)
                self.columns, self._is_query = first.columns, first.is_query
                self.is_changelog = first.kinds is not None
                self._reader = self._paging(first, pages, zone)
                self.description, self.rownumber = [description_of(column) for column in first.columns], 0
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Self:
        """Run a statement once for each sequence of parameters.

        An INSERT … VALUES (…) sends many rows per statement. `rowcount` is -1 if any count is unknown.
        """
        self._ready()
        with translating():
            batches = insert_batches(operation, seq_of_parameters)
        counts = [self.execute(statement, parameters).rowcount for statement, parameters in batches]
        self.rowcount = -1 if -1 in counts else sum(counts)
        return self

    def cancel(self) -> None:
        """Stop the statement on the gateway. Has no effect after the statement has completed.

        May be called from another thread.
        """
        # For execute(), which may still be waiting for the handle of the operation.
        self._to_cancel = True
        operation = self._operation
        if operation is not None:
            with translating():
                self.connection.client.cancel(operation)

    def fetchone(self) -> Row | None:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next *size* rows (`arraysize` by default), or fewer if fewer remain."""
        return self._take(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        return self._take(None)

    def fetch_changes(self) -> Iterator[Change]:
        """Yield the remaining rows as they arrive, each with its kind of change."""
        while rows := self._take(1, changes=True):
            yield rows[0] if self.is_changelog else (RowKind.INSERT, rows[0])

    def fetch_arrow(self) -> pa.Table:
        """Return the remaining rows as an Arrow table. Requires pyarrow."""
        with needing("pyarrow", "fetch_arrow"):
            import pyarrow as pa
        return pa.concat_tables(self._tables())

    def fetch_arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows as Arrow record batches, as received from the gateway.

        Requires pyarrow.
        """
        with needing("pyarrow", "fetch_arrow_batches"):
            import pyarrow as pa  # noqa: F401 - before a row is read
        for table in self._tables():
            yield from table.to_batches()

    def fetch_df(self) -> pandas.DataFrame:
        """Return the remaining rows as a DataFrame. Requires pyarrow and pandas."""
        with needing("pandas", "fetch_df"):
            import pandas  # noqa: F401 - before a row is read
        frame: pandas.DataFrame = self.fetch_arrow().to_pandas()
        return frame

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing, because literals have the types of their values."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, because values are never truncated."""

    def close(self) -> None:
        """Release the rows of the statement. The cursor cannot be used again."""
        self._release()
        self._closed = True

    def _ready(self) -> GatewayClient:
        if self._closed:
            raise InterfaceError("The cursor is closed; make another one.")
        self._release()
        self._to_cancel, self.rowcount = False, -1
        return self.connection.client

    def _release(self) -> None:
        operation, self._operation = self._operation, None
        self._reader, self.columns, self.description, self.rownumber = None, (), None, None
        self.is_changelog = False
        if operation is not None:
            # If the gateway or the session no longer exists, the rows do not exist either.
            with suppress(GatewayError, InterfaceError):
                self.connection.client.close_operation(operation)

    def _paging(self, first: ResultPage, others: Iterator[ResultPage], zone: tzinfo | None) -> PageReader:
        """Return a reader of the rows.

        Pages after the first are Arrow if pyarrow is installed and yields the same objects.
        """
        from_json, from_arrow, pages = rows_converter(first.columns, zone), None, others
        as_arrow = ARROW_ROOTS.issuperset(column.type.root for column in first.columns)
        if as_arrow and first.is_query and not first.is_last and self._operation is not None:
            with suppress(ModuleNotFoundError):
                from mt_core.client.arrow_rows import arrow_rows

                from_arrow = arrow_rows((*first.columns, KIND) if self.is_changelog else first.columns, zone)
                pages = self.connection.client.arrow_pages(self._operation, 1)

        def convert(page: Page) -> Iterator[list[Any]]:
            if from_arrow is None or isinstance(page, ResultPage):
                rows = list(from_json(page.rows))
                if page.kinds is not None and not self.is_changelog:
                    raise refused()
                return iter([rows if page.kinds is None else list(zip(page.kinds, rows, strict=True))])
            return map(changes, from_arrow(page)) if self.is_changelog else from_arrow(page)

        return PageReader(first, pages, convert, self.max_rows)

    def _take(self, size: int | None, *, changes: bool = False) -> list[Any]:
        reader = self._reading(changes=changes)
        with translating():
            rows = reader.take(size)
        self.rownumber = (self.rownumber or 0) + len(rows)
        return rows

    def _tables(self) -> Iterator[pa.Table]:
        """Yield the remaining rows as tables, at least one table."""
        from mt_core.client.arrow import arrow_table, as_tables

        reader, operation, client = self._reading(), self._operation, self.connection.client
        if operation is None or not self._is_query:
            rows = self.fetchall()
            with translating():
                yield arrow_table(self.columns, rows)
            return
        with translating():
            for table in reader.tables(
                as_tables(client.arrow_pages(operation, reader.token), client.properties)
            ):
                self.rownumber = (self.rownumber or 0) + table.num_rows
                yield table

    def _reading(self, *, changes: bool = False) -> PageReader:
        if self._reader is None:
            raise ProgrammingError(
                "There are no rows to fetch: execute() a statement that returns rows first."
            )
        if self.is_changelog and not changes:
            raise refused()
        return self._reader


def _refuse_hidden_zone(statement: str) -> None:
    """Raise NotSupportedError for SET TIME ZONE, whose zone is not visible in the session properties."""
    words = (token.keyword for token in significant(statement))
    if tuple(islice(words, 3)) == ("SET", "TIME", "ZONE"):
        raise NotSupportedError("Use SET 'table.local-time-zone' = '…' instead of SET TIME ZONE.")


Change = tuple[RowKind, Row]
KIND = Column(name=ROW_KIND, type=LogicalType(root="TINYINT", nullable=False))
"""The column of an Arrow page that contains the row kind codes."""


def changes(rows: Iterable[Row]) -> list[Change]:
    """Return *rows*, whose last value is the code of their kind, as changes."""
    return [(RowKind.of(row[-1]), row[:-1]) for row in rows]


def refused() -> NotSupportedError:
    """Return the error for reading a changelog as if it only added rows."""
    return NotSupportedError(
        "The rows of this result change earlier ones: read them with fetch_changes(), "
        "which returns the kind of each change, or run the query in batch mode: "
        "SET 'execution.runtime-mode' = 'batch'."
    )
