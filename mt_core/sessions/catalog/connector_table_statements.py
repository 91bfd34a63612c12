"""Statements about connector tables, which no Spark catalog can store: CREATE, ALTER and DROP TABLE.

A table with a Flink connector must be visible under its name in any catalog. It must also survive a restart
of Spark, whose own catalog is in memory. Therefore the registry stores its definition, and Spark gets the
objects that queries need. In Spark's own catalog that is the table itself, or a view if its rows come from a
query. In any other catalog it is a view with the table's name, over the query or over a table with a
generated name in Spark's catalog.

Creating such a table is not atomic. `_make` undoes the earlier steps if a later one fails, and registers the
table last, so every registered table exists. Another program may drop the view and create another table with
its name, so DROP applies only if it can drop the view. A catalog that does not support views cannot contain
such tables.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mt_core.base.identifiers import display_name, quote, sql_name
from mt_core.errors import DefinitionInvalid, MtError, QueryFailed, RegistryError, TableExists, Unsupported
from mt_core.model.connector_table import SPARK_CATALOG, STORED_IN, ConnectorTable
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.operations.operation import DONE, OperationResult
from mt_core.sessions.ports import CatalogEngine, SessionContext
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sql.catalog import CreateConnectorTable, SparkStatement
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.parser import ReadStatement

NOT_THERE = "TABLE_OR_VIEW_NOT_FOUND"
_NAMING = frozenset({"ALTER_TABLE", "DROP_TABLE", "CREATE_VIEW", "ALTER_VIEW", "DROP_VIEW"})
_NO_VIEWS = re.compile(r"view.*not supported|not support.*view|MISSING_CATALOG_ABILITY", re.IGNORECASE)
_NOT_IN_A_NAME = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTableStatements:
    """Performs statements about connector tables.

    A connector table consists of a row in the registry, a view in its catalog and a table in Spark's own
    catalog.
    """

    engine: CatalogEngine
    tables: ConnectorTables

    def concern(self, read: ReadStatement) -> bool:
        """Return whether *read* may be about a connector table. Raises RegistryError."""
        return _creation(read) is not None or (read.type in _NAMING and bool(self.tables.all()))

    def answer(self, read: ReadStatement, request: CatalogRequest) -> OperationResult | None:
        """Perform *read* and return its result, or None if it is left to Spark.

        Spark performs statements about other tables, and statements about connector tables in its own catalog
        that need no view. Raises Unsupported for a statement that connector tables do not support.
        """
        creation = _creation(read)
        if creation is not None:
            return self._create(creation, request)
        name = _read_name(TokenCursor(read.text))
        table = self.find(name, request.context) if name else None
        if table is None:
            return None
        match read.type:
            case "DROP_TABLE":
                return self._drop(table, request)
            case "ALTER_TABLE":
                return self._alter(read, table, request)
            case other:
                raise Unsupported(
                    f"{other.replace('_', ' ')} {display_name(table.parts)}: "
                    f"it is a table with the connector '{table.connector}'; use another name, or DROP TABLE."
                )

    def find(self, name: Sequence[str], context: SessionContext) -> ConnectorTable | None:
        """Return the connector table that *name* means in the session, or None for another relation."""
        return self.tables.find(self.full_name(name, context)) if self.tables.all() else None

    def full_name(self, name: Sequence[str], context: SessionContext) -> tuple[str, ...]:
        """Return *name* qualified in the session. Names in Spark's own catalog are in lower case."""
        if len(name) > 1 and name[0] in self.engine.catalogs(context):
            full = tuple(name)
        else:
            state = self.engine.session_state(context)
            full = (state.catalog, *(state.namespace if len(name) == 1 else ()), *name)
        return tuple(map(str.lower, full)) if full[0].lower() == SPARK_CATALOG else full

    def full_database(self, name: Sequence[str], context: SessionContext) -> tuple[str, ...]:
        """Return the database *name*, qualified with its catalog in the session."""
        if name[0] in self.engine.catalogs(context):
            return tuple(name)
        return (self.engine.session_state(context).catalog, *name)

    def forget(self, table: ConnectorTable, context: SessionContext) -> None:
        """Delete what remains of a table whose view was dropped with its database. Raises RegistryError."""
        if table.spark_name:
            self.engine.execute(context, f"DROP TABLE IF EXISTS {table.spark_name}", job_id=uuid.uuid4().hex)
        self.tables.delete(table.name)

    # ------------------------------------------------------------------------------------------------- create

    def _create(self, fact: CreateConnectorTable, request: CatalogRequest) -> OperationResult:
        name = self.full_name(fact.name, request.context)
        if fact.or_replace or fact.spark_sql.startswith("CREATE OR REPLACE"):
            raise Unsupported(
                f"Table {display_name(name)}: a table with the connector '{fact.connector}' cannot be "
                "replaced; DROP TABLE it, then CREATE TABLE."
            )
        if self._is_there(name, request):
            if fact.if_not_exists:
                return DONE
            raise TableExists(
                f"Table {display_name(name)} exists already; choose another name, or DROP TABLE it.",
                table=display_name(name),
            )
        table = ConnectorTable(
            name=sql_name(name),
            columns=fact.column_list,
            clauses=fact.clauses,
            keys=fact.all_keys,
            connector=fact.connector or "",
            options=fact.options,
            comment=fact.comment,
            partition_keys=fact.partition_keys,
            watermark=fact.watermark,
            query=fact.rows,
            unbounded=fact.unbounded,
            bounded=fact.bounded,
            topic=None if fact.kafka is None else fact.kafka.of_table(display_name(name)),
            spark_name=_stored_name(name) if _is_stored_aside(fact, name) else "",
        )
        if table.topic is not None:
            self.engine.load_connector(request.context, table.connector)
        self._make(table, request)
        return DONE

    def _make(self, table: ConnectorTable, request: CatalogRequest) -> None:
        """Create a table in Spark, then in the registry. If a step fails, undo the earlier ones."""
        undo: list[str] = []
        try:
            if table.spark_name:
                self._run(f"CREATE DATABASE IF NOT EXISTS {sql_name((SPARK_CATALOG, STORED_IN))}", request)
            if not table.query or table.parts[0] == SPARK_CATALOG:
                self._run(_creating(table), request)
                undo.append(f"DROP {'VIEW' if table.query else 'TABLE'} {table.stored_name}")
            if not table.columns and not table.query:
                table = replace(table, columns=self.columns(request.context, table.stored_name))
            if table.has_view:
                self._make_view(table, request)
                undo.append(f"DROP VIEW {table.name}")
            self.tables.put(table)
        except MtError:
            for text in reversed(undo):
                with suppress(MtError):
                    self._run(text, request)
            raise

    def _make_view(self, table: ConnectorTable, request: CatalogRequest, *, replacing: bool = False) -> None:
        try:
            self._run(table.create_view(replacing=replacing), request)
        except MtError as error:
            catalog = table.parts[0]
            if not _NO_VIEWS.search(error.message):
                raise
            raise DefinitionInvalid(
                f"Table {display_name(table.parts)}: catalog {catalog} does not support views, "
                f"and so no table with the connector '{table.connector}'; "
                f"use CREATE TEMPORARY TABLE, or name it {SPARK_CATALOG}.default.{table.parts[-1]}."
            ) from error

    def _is_there(self, name: Sequence[str], request: CatalogRequest) -> bool:
        try:
            self.engine.relation(request.context, name)
        except QueryFailed as error:
            if error.error_class == NOT_THERE:
                return False
        return True

    # ----------------------------------------------------------------------------------------- drop and alter

    def _drop(self, table: ConnectorTable, request: CatalogRequest) -> OperationResult | None:
        if not table.query and not table.spark_name:
            # Spark itself drops tables in its own catalog; the registry is updated afterwards.
            return None
        try:
            self._run(f"DROP VIEW {table.name}", request)
        except QueryFailed as error:
            if error.error_class != NOT_THERE and "VIEW" not in (error.error_class or ""):
                raise
            # Another program has dropped the view, and may have created another table with its name.
            self.tables.delete(table.name)
            return None
        if table.spark_name:
            self._run(f"DROP TABLE IF EXISTS {table.spark_name}", request)
        self.tables.delete(table.name)
        return DONE

    def _alter(
        self, read: ReadStatement, table: ConnectorTable, request: CatalogRequest
    ) -> OperationResult | None:
        clause = _clause(read)
        if (new := _new_name(clause)) is not None:
            return self._rename(table, self._renamed(table, new, request.context), request)
        if table.query or table.topic is not None:
            raise Unsupported(
                f"ALTER TABLE {display_name(table.parts)}: a table with the connector '{table.connector}' "
                "stores no rows and cannot be altered; DROP TABLE it, then CREATE TABLE again."
            )
        if clause.upper().startswith(("SET TBLPROPERTIES", "UNSET TBLPROPERTIES")):
            raise Unsupported(
                f"ALTER TABLE {display_name(table.parts)}: "
                "the options of a table with a connector cannot be altered; DROP TABLE it, "
                "which leaves files below its path and rows in its database, then CREATE TABLE with new ones."
            )
        if not table.spark_name:
            return None
        self._run(f"ALTER TABLE {table.spark_name} {clause}", request)
        altered = replace(table, columns=self.columns(request.context, table.spark_name))
        self._make_view(altered, request, replacing=True)
        self.tables.put(altered)
        return DONE

    def _rename(self, table: ConnectorTable, name: Sequence[str], request: CatalogRequest) -> OperationResult:
        kind = "VIEW" if table.query or table.spark_name else "TABLE"
        topic = None if table.topic is None else table.topic.of_table(display_name(name))
        renamed = replace(table, name=sql_name(name), topic=topic)
        if self._is_there(name, request):
            raise TableExists(
                f"ALTER TABLE {display_name(table.parts)} RENAME: {display_name(name)} exists already.",
                table=display_name(name),
            )
        self.tables.put(renamed)
        try:
            self._run(f"ALTER {kind} {table.name} RENAME TO {sql_name(name[1:])}", request)
        except MtError:
            with suppress(RegistryError):
                self.tables.delete(renamed.name)
            raise
        self.tables.delete(table.name)
        return DONE

    def _renamed(self, table: ConnectorTable, new: Sequence[str], context: SessionContext) -> tuple[str, ...]:
        if len(new) == 1:
            # As in Spark, the table stays in its namespace.
            return self.full_name((*table.parts[:-1], *new), context)
        name = self.full_name(new, context) if new[0] == table.parts[0] else (table.parts[0], *new)
        if new[0] != table.parts[0] and new[0] in self.engine.catalogs(context):
            raise Unsupported(
                f"ALTER TABLE {display_name(table.parts)} RENAME: it cannot leave catalog {table.parts[0]}; "
                "CREATE TABLE in the other one."
            )
        return name

    def columns(self, context: SessionContext, name: str) -> tuple[str, ...]:
        """Return the columns of a table as CREATE TABLE lists them.

        Raises QueryFailed if it does not exist.
        """
        columns = self.engine.query_columns(context, f"TABLE {name}")
        return tuple(f"{quote(column.name)} {column.type}" for column in columns)

    def _run(self, sql: str, request: CatalogRequest) -> None:
        self.engine.execute(request.context, sql, job_id=request.job_id)


def is_registered(fact: CreateConnectorTable) -> bool:
    """Return whether the registry stores the table that *fact* creates."""
    return fact.connector not in (None, "iceberg") and not fact.is_temporary


def _creation(read: ReadStatement) -> CreateConnectorTable | None:
    """Return the connector table that *read* creates, or None if Spark creates it from a query."""
    fact = read.fact if read.type in {"CREATE_TABLE", "REPLACE_TABLE"} else None
    return fact if isinstance(fact, CreateConnectorTable) and is_registered(fact) and not fact.query else None


def _creating(table: ConnectorTable) -> str:
    if table.columns or table.query:
        return table.statement
    return f"CREATE TABLE {table.stored_name} {table.clauses}"


def _read_name(cursor: TokenCursor) -> tuple[str, ...] | None:
    """Return the name after TABLE or VIEW, or None if it is invalid or names a temporary object."""
    while cursor.word() not in {"TABLE", "VIEW", ""}:
        if cursor.word() in {"TEMPORARY", "TEMP"}:
            return None
        cursor.take()
    cursor.take()
    while cursor.word() in {"IF", "NOT", "EXISTS"}:
        cursor.take()
    with suppress(MtError):
        return cursor.name("the name of a table")
    return None


def _clause(read: ReadStatement) -> str:
    """Return the clause after the name in an ALTER TABLE, in Spark's syntax."""
    text = read.fact.spark_sql if isinstance(read.fact, SparkStatement) else read.text
    cursor = TokenCursor(text)
    _read_name(cursor)
    first = cursor.peek()
    return text[first.start :].strip() if first is not None else ""


def _new_name(clause: str) -> tuple[str, ...] | None:
    """Return the new table name if *clause* is RENAME TO, or None."""
    cursor = TokenCursor(clause)
    return cursor.name("the new name of the table") if cursor.accept("RENAME", "TO") else None


def _is_stored_aside(fact: CreateConnectorTable, name: Sequence[str]) -> bool:
    """Return whether Spark's own catalog stores the table under a generated name, below a view *name*."""
    return fact.kafka is not None or (not fact.rows and name[0] != SPARK_CATALOG)


def _stored_name(name: Sequence[str]) -> str:
    """Return a unique name in Spark's own catalog, which allows only letters, digits and underscores."""
    readable = _NOT_IN_A_NAME.sub("_", "_".join(name)).lower()
    return sql_name((SPARK_CATALOG, STORED_IN, f"{readable}_{uuid.uuid4().hex[:8]}"))
