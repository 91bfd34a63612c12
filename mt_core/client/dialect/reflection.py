"""What is in the catalogs, as SQLAlchemy's inspector asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import exc
from sqlalchemy.engine import Connection, reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import ReflectedColumn, ReflectedTableComment

from mt_core.client.dialect.types import column_type
from mt_core.rowset import Column

# Clauses of SHOW CREATE TABLE, which begin a line. Names in it may not be quoted, so that it cannot be cut into tokens.
_COMMENT = re.compile(r"^COMMENT '(.*?)(?<!\\)'$", re.MULTILINE | re.DOTALL)
_QUERY = re.compile(r"^AS\s(.*)", re.MULTILINE | re.DOTALL)
_MISSING = {"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"}


class SparkReflection(DefaultDialect):
    """Answers the inspector by SHOW statements, and by the columns of a query that reads no row.

    Materialized tables are tables too; keys, indexes and checks do not exist.
    """

    def get_catalog_names(self, connection: Connection) -> list[str]:
        """Return the names of the catalogs; the inspector has no question for them."""
        return [str(row[0]) for row in connection.exec_driver_sql("SHOW CATALOGS")]

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return [str(row[0]) for row in connection.exec_driver_sql("SHOW DATABASES")]

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the names of tables, of materialized ones too."""
        others = {name for name, _ in self._names(connection, "VIEWS", schema)}
        found = self._names(connection, "TABLES", schema)
        return [name for name, temporary in found if not temporary and name not in others]

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return [name for name, temporary in self._names(connection, "VIEWS", schema) if not temporary]

    @reflection.cache
    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return [name for name, temporary in self._names(connection, "VIEWS", schema) if temporary]

    @reflection.cache
    def get_materialized_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the names of materialized tables."""
        return [name for name, _ in self._names(connection, "MATERIALIZED TABLES", schema)]

    @reflection.cache
    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
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
        found = _COMMENT.search(self._definition(connection, table_name, schema))
        # Of all characters only quotes are escaped; a comment that was dropped is empty.
        return {"text": found[1].replace("\\'", "'") or None if found else None}

    @reflection.cache
    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        definition = self._definition(connection, view_name, schema)
        found = _QUERY.search(definition)
        if found is None or not definition.startswith("CREATE VIEW"):
            raise exc.NoSuchTableError(view_name)
        return found[1].strip()

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        self._require(connection, table_name, schema, **kw)
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._require(connection, table_name, schema, **kw)

    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._require(connection, table_name, schema, **kw)

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._require(connection, table_name, schema, **kw)

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._require(connection, table_name, schema, **kw)

    def _require(self, connection: Connection, name: str, schema: str | None, **kw: Any) -> list[Any]:
        """Return an empty list if there is such a table; raises NoSuchTableError."""
        self.get_columns(connection, name, schema, **kw)
        return []

    def _names(self, connection: Connection, kind: str, schema: str | None) -> Iterator[tuple[str, bool]]:
        """Yield names and whether they are temporary, where the answer tells."""
        where = f" IN {self.identifier_preparer.quote_schema(schema)}" if schema is not None else ""
        found = connection.exec_driver_sql(f"SHOW {kind}{where}")
        is_sparks = list(found.keys())[:1] == ["namespace"]
        for row in found:
            yield (str(row[1]), bool(row[2])) if is_sparks else (str(row[0]), False)

    def _columns(self, connection: Connection, name: str, schema: str | None) -> tuple[Column, ...]:
        found = self._ask(connection, "SELECT * FROM {} LIMIT 0", name, schema)
        columns: tuple[Column, ...] = found.cursor.columns
        found.close()
        return columns

    def _definition(self, connection: Connection, name: str, schema: str | None) -> str:
        return str(self._ask(connection, "SHOW CREATE TABLE {}", name, schema).scalar_one())

    def _ask(self, connection: Connection, statement: str, name: str, schema: str | None) -> Any:
        quote = self.identifier_preparer
        path = f"{quote.quote_schema(schema)}.{quote.quote(name)}" if schema is not None else quote.quote(name)
        try:
            return connection.exec_driver_sql(statement.format(path))
        except exc.ProgrammingError as cause:
            if getattr(cause.orig, "error_class", None) in _MISSING:
                raise exc.NoSuchTableError(f"{schema}.{name}" if schema is not None else name) from cause
            raise
