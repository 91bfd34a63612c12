"""Catalog reflection for SQLAlchemy's inspector."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import exc
from sqlalchemy.engine import Connection, reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import ReflectedColumn, ReflectedTableComment

from mt_core.base.rowset import Column
from mt_core.client.dialect.types import column_type

# Clauses of SHOW CREATE TABLE, each at the start of a line. The tokenizer cannot be used, because SHOW CREATE
# TABLE does not quote all names.
_COMMENT = re.compile(r"^COMMENT '(.*?)(?<!\\)'$", re.MULTILINE | re.DOTALL)
_QUERY = re.compile(r"^AS\s(.*)", re.MULTILINE | re.DOTALL)
_DEFINITION = "SHOW CREATE TABLE {}"
_MISSING = {"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"}


class SparkReflection(DefaultDialect):
    """Answers the inspector with SHOW statements, and with the columns of an empty query.

    Materialized tables count as tables too. Keys, indexes and checks do not exist.
    """

    def get_catalog_names(self, connection: Connection) -> list[str]:
        """Return the names of the catalogs, which the inspector has no method to list."""
        return [str(row[0]) for row in connection.exec_driver_sql("SHOW CATALOGS")]

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return [str(row[0]) for row in connection.exec_driver_sql("SHOW DATABASES")]

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the names of tables, including materialized tables."""
        others = {name for name, _ in self._names(connection, "VIEWS", schema)}
        names = self._names(connection, "TABLES", schema)
        return [name for name, temporary in names if not temporary and name not in others]

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return [name for name, temporary in self._names(connection, "VIEWS", schema) if not temporary]

    @reflection.cache
    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return [name for name, temporary in self._names(connection, "VIEWS", schema) if temporary]

    @reflection.cache
    def get_materialized_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the names of the materialized tables in *schema*, by default the current schema."""
        # Unlike SHOW TABLES, this statement lists all schemas if IN is omitted.
        within = self._get_default_schema_name(connection) if schema is None else schema
        return [name for name, _ in self._names(connection, "MATERIALIZED TABLES", within)]

    @reflection.cache
    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        try:
            self._columns(connection, table_name, schema)
        except exc.NoSuchTableError:
            return False
        return True

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        return [
            {
                "name": column.name,
                "type": column_type(column.type),
                "nullable": column.type.nullable,
                "default": None,
                "comment": column.comment,
            }
            for column in self._columns(connection, table_name, schema)
        ]

    @reflection.cache
    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedTableComment:
        definition = str(self._ask(connection, _DEFINITION, table_name, schema).scalar_one())
        comment = _COMMENT.search(definition)
        # Only quotes are escaped. A dropped comment is an empty text.
        return {"text": comment[1].replace("\\'", "'") or None if comment else None}

    @reflection.cache
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        definition = str(self._ask(connection, _DEFINITION, view_name, schema).scalar_one())
        query = _QUERY.search(definition)
        if query is None or not definition.startswith("CREATE VIEW"):
            raise exc.NoSuchTableError(view_name)
        return query[1].strip()

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return an empty list. Raises NoSuchTableError if the table does not exist."""
        self.get_columns(connection, table_name, schema, **kw)
        return []

    get_foreign_keys = get_unique_constraints = get_check_constraints = get_indexes

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return {"constrained_columns": self.get_indexes(connection, table_name, schema, **kw), "name": None}

    def _names(self, connection: Connection, kind: str, schema: str | None) -> Iterator[tuple[str, bool]]:
        """Yield each name, and whether it is temporary, which only Spark's own SHOW reports."""
        where = f" IN {self.identifier_preparer.quote_schema(schema)}" if schema is not None else ""
        rows = connection.exec_driver_sql(f"SHOW {kind}{where}")
        is_sparks = list(rows.keys())[:1] == ["namespace"]
        for row in rows:
            yield (str(row[1]), bool(row[2])) if is_sparks else (str(row[0]), False)

    def _columns(self, connection: Connection, name: str, schema: str | None) -> tuple[Column, ...]:
        result = self._ask(connection, "SELECT * FROM {} LIMIT 0", name, schema)
        columns: tuple[Column, ...] = result.cursor.columns
        result.close()
        return columns

    def _ask(self, connection: Connection, statement: str, name: str, schema: str | None) -> Any:
        quote = self.identifier_preparer
        path = (
            f"{quote.quote_schema(schema)}.{quote.quote(name)}" if schema is not None else quote.quote(name)
        )
        try:
            return connection.exec_driver_sql(statement.format(path))
        except exc.ProgrammingError as cause:
            if getattr(cause.orig, "error_class", None) in _MISSING:
                raise exc.NoSuchTableError(f"{schema}.{name}" if schema is not None else name) from cause
            raise
