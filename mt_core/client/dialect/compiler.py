"""Compiles SQLAlchemy statements to Spark SQL: names, queries, and CREATE TABLE."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from sqlalchemy import exc
from sqlalchemy.sql import compiler, sqltypes
from sqlalchemy.sql.ddl import CreateIndex
from sqlalchemy.sql.schema import Table

from mt_core.base.identifiers import unquote
from mt_core.client.literals import literal

_LITERALS = (bool, int, float, str, bytes)
# fmt: off
_RESERVED = {
    "all", "and", "anti", "any", "array", "as", "asc", "between", "binary", "both", "by", "case", "cast",
    "check", "collate", "column", "constraint", "create", "cross", "cube", "current", "current_date",
    "current_time", "current_timestamp", "current_user", "delete", "desc", "describe", "distinct", "drop",
    "else", "end", "escape", "except", "exists", "false", "fetch", "filter", "for", "foreign", "from", "full",
    "function", "grant", "group", "grouping", "having", "in", "inner", "insert", "intersect", "interval",
    "into", "is", "join", "lateral", "leading", "left", "like", "limit", "local", "map", "minus", "natural",
    "no", "not", "null", "of", "offset", "on", "only", "or", "order", "outer", "overlaps", "percent",
    "primary", "qualify", "range", "references", "right", "rollup", "row", "rows", "select", "semi",
    "session_user", "set", "sets", "some", "start", "struct", "table", "tablesample", "then", "time", "to",
    "trailing", "true", "truncate", "union", "unique", "unknown", "unpivot", "update", "user", "using",
    "values", "when", "where", "window", "with", "within",
}
# fmt: on


class SparkIdentifierPreparer(compiler.IdentifierPreparer):
    """Quotes names with backquotes.

    The schema `catalog.schema` is two names, unless it is itself in backquotes.
    """

    reserved_words = _RESERVED

    def __init__(self, dialect: Any) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`")

    def quote_schema(self, schema: str, force: Any = None) -> str:
        is_one_name = schema.startswith("`") and schema.endswith("`")
        return ".".join(
            self.quote(part) for part in ([unquote(schema)] if is_one_name else schema.split("."))
        )


def _operator(form: str) -> Any:
    """Return a method that compiles a binary operator to *form*."""
    return lambda self, binary, operator, **kw: form.format(
        self.process(binary.left, **kw), self.process(binary.right, **kw)
    )


class SparkCompiler(compiler.SQLCompiler):
    """Compiles queries and DML."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        text = ""
        if select._limit_clause is not None:
            text += f"\n LIMIT {self.process(select._limit_clause, **kw)}"
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        return text

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        # Iceberg has no row locks; a query reads one snapshot.
        return ""

    def visit_empty_set_op_expr(self, type_: Any, expand_op: Any, **kw: Any) -> str:
        if len(type_) > 1:
            # SQLAlchemy's (NULL, NULL) has no types that Spark could compare.
            return self.visit_empty_set_expr(type_)
        text: str = super().visit_empty_set_op_expr(type_, expand_op, **kw)  # type: ignore[no-untyped-call]
        return text

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        return f"SELECT {', '.join('NULL' for _ in element_types) or 'NULL'} WHERE false"

    visit_regexp_match_op_binary = _operator("{} RLIKE {}")
    visit_not_regexp_match_op_binary = _operator("{} NOT RLIKE {}")
    visit_regexp_replace_op_binary = _operator("regexp_replace({}, {})")

    def render_literal_value(self, value: Any, type_: Any) -> str:
        if isinstance(type_, (sqltypes.String, sqltypes.Integer, sqltypes.Float)) and isinstance(
            value, _LITERALS
        ):
            return literal(value)
        if isinstance(type_, sqltypes.Date) and isinstance(value, datetime):
            return literal(value.date())
        if isinstance(type_, (sqltypes.Date, sqltypes.DateTime, sqltypes.Time)):
            return literal(value)
        return super().render_literal_value(value, type_)


class SparkDDLCompiler(compiler.DDLCompiler):
    """Compiles CREATE TABLE. It omits keys and checks, because Spark would not enforce them."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        kind = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        parts = [self.preparer.format_column(column), kind]
        default = self.get_column_default_string(column)
        if default is not None:
            parts.append(f"DEFAULT {default}")
        if not column.nullable:
            parts.append("NOT NULL")
        if column.comment is not None:
            parts.append(f"COMMENT {literal(column.comment)}")
        return " ".join(parts)

    def create_table_constraints(self, table: Any, *args: Any, **kw: Any) -> str:
        return ""

    def post_create_table(self, table: Table) -> str:
        """Return the clauses after the columns.

        They come from the options `freshtable_using`, `freshtable_partitioned_by` and
        `freshtable_tblproperties`.
        """
        options = table.dialect_options["freshtable"]
        text = f"\nUSING {options['using']}"
        if options["partitioned_by"]:
            text += f"\nPARTITIONED BY ({', '.join(options['partitioned_by'])})"
        if table.comment is not None:
            text += f"\nCOMMENT {literal(table.comment)}"
        if options["tblproperties"]:
            pairs = (f"{literal(key)} = {literal(value)}" for key, value in options["tblproperties"].items())
            text += f"\nTBLPROPERTIES ({', '.join(pairs)})"
        return text

    def visit_create_index(self, create: CreateIndex, *args: Any, **kw: Any) -> NoReturn:
        index = create.element
        raise exc.CompileError(
            f"Index {index.name} of table {index.table}: tables in Spark have no indexes; leave it out, "
            "or give the table freshtable_partitioned_by."
        )

    def visit_set_column_comment(self, create: Any, **kw: Any) -> str:
        column = create.element
        table, name = self.preparer.format_table(column.table), self.preparer.format_column(column)
        return f"ALTER TABLE {table} ALTER COLUMN {name} COMMENT {literal(column.comment)}"
