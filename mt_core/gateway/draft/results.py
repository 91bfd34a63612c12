"""Results as the draft of FLIP-91 has them: column types as text, rows as arrays, and the appendix's column names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from mt_core.rowset import STRING_LENGTH, Column, LogicalType
from mt_core.sessions.operations.operation import OperationResult, ResultKind

PAGE_ROWS = 5000
# What JDBC's executeUpdate answers where the number of rows is not known.
SUCCESS_NO_INFO = -2
_VARCHAR, _BIGINT = "VARCHAR", "BIGINT"
_SHOWN = {
    "SHOW_MODULES": "modules",
    "SHOW_CATALOGS": "catalogs",
    "SHOW_DATABASE": "databases",
    "SHOW_TABLES": "tables",
    "SHOW_FUNCTIONS": "functions",
    "EXPLAIN": "explanation",
}
_NAMES = {
    "INTEGER": "INT",
    "TIME_WITHOUT_TIME_ZONE": "TIME",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ",
    "INTERVAL_YEAR_MONTH": "INTERVAL YEAR TO MONTH",
    "INTERVAL_DAY_TIME": "INTERVAL DAY TO SECOND",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One result: names and types of its columns, and rows; with `change_flags` where the draft has them."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    change_flags: Sequence[bool] | None = None

    @classmethod
    def of(cls, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Draft:
        return cls(columns=[(column.name, type_text(column.type)) for column in columns], rows=rows)

    def flagged(self) -> Draft:
        """Return the result with a change flag for each row: all are appended, none deleted."""
        return replace(self, change_flags=[True] * len(self.rows))

    def with_types(self, views: Collection[str]) -> Draft:
        """Return names of tables with their types beside them."""
        names = set(views)
        rows = [[row[0], "VIEW" if row[0] in names else "TABLE"] for row in self.rows]
        return replace(self, columns=[*self.columns[:1], ("type", _VARCHAR)], rows=rows)

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "columns": [{"name": name, "type": type_} for name, type_ in self.columns],
            "data": list(self.rows),
        }
        return body if self.change_flags is None else body | {"change_flags": list(self.change_flags)}


def job_row(job_id: str) -> Draft:
    """Return what a statement that runs a job answers at once."""
    return Draft(columns=[("job_id", _VARCHAR)], rows=[[job_id]])


def job_page(result: OperationResult, rows: Sequence[Sequence[Any]]) -> Draft:
    """Return a page of what a job that changes data answers: one row on the first page."""
    return affected(result.affected_rows, first=bool(rows) or result.job_id is None)


def affected(count: int | None, *, first: bool) -> Draft:
    """Return how many rows a change wrote, on the *first* page of its result."""
    rows = [[SUCCESS_NO_INFO if count is None else count]] if first else []
    return Draft(columns=[("affected_row_count", _BIGINT)], rows=rows)


def shown(result: OperationResult, kind: str, rows: Sequence[Sequence[Any]]) -> Draft:
    """Return the result of a statement of *kind* in the appendix's form; a kind that it does not name is unchanged."""
    if result.result_kind is ResultKind.SUCCESS:
        return Draft(columns=[("affected_row_count", _BIGINT)], rows=[[0]])
    columns = result.rows.columns
    if kind == "DESCRIBE":
        names = [column.name for column in columns]
        schema = {"columns": [dict(zip(names, row, strict=True)) for row in rows]}
        return Draft(columns=[("table_schema", _VARCHAR)], rows=[[orjson.dumps(schema).decode()]])
    if kind in _SHOWN:
        at = _index_of_names(columns)
        return Draft(columns=[(_SHOWN[kind], _VARCHAR)], rows=[[row[at]] for row in rows])
    return Draft.of(columns, rows)


def all_rows(result: OperationResult) -> list[list[Any]]:
    """Return every row."""
    rows: list[list[Any]] = []
    while page := result.rows.page(len(rows), PAGE_ROWS):
        rows += page
    return rows


def type_text(type_: LogicalType) -> str:
    """Return a type as SQL has it: INT, DECIMAL(10, 2), ARRAY<INT>, VARCHAR for a string of any length."""
    return _type_text(type_.to_json())


def _type_text(body: Any) -> str:
    root, nullable = body["type"], body.get("nullable", True)
    return _bare_text(root, body) + ("" if nullable else " NOT NULL")


def _bare_text(root: str, body: Any) -> str:
    name = _NAMES.get(root, root)
    if root in {"ARRAY", "MULTISET"}:
        return f"{name}<{_type_text(body['elementType'])}>"
    if root == "MAP":
        return f"{name}<{_type_text(body['keyType'])}, {_type_text(body['valueType'])}>"
    if root == "ROW":
        return "ROW<" + ", ".join(f"`{each['name']}` {_type_text(each['fieldType'])}" for each in body["fields"]) + ">"
    if root == "DECIMAL":
        return f"{name}({body['precision']}, {body['scale']})"
    if root in {"CHAR", "VARCHAR", "BINARY", "VARBINARY"}:
        return name if body["length"] == STRING_LENGTH else f"{name}({body['length']})"
    return f"{name}({body['precision']})" if "precision" in body and "INTERVAL" not in root else name


def _index_of_names(columns: Sequence[Column]) -> int:
    """Spark's own SHOW TABLES has the namespace before the name."""
    return next((at for at, column in enumerate(columns) if column.name in {"table name", "tableName"}), 0)
