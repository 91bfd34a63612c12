"""Results in the form of FLIP-91's draft: types as text, rows as arrays, column names of its appendix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from mt_core.base.rowset import STRING_LENGTH, Column, RowKind
from mt_core.sessions.operations.operation import OperationResult, ResultKind
from mt_core.sessions.operations.result_pages import Page

PAGE_ROWS = 5000
# What JDBC's executeUpdate returns if the number of rows is unknown.
SUCCESS_NO_INFO = -2
VARCHAR, BIGINT = "VARCHAR", "BIGINT"
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
    """A result: columns with types, rows, and the kinds of the rows unless all are INSERT."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    kinds: Sequence[RowKind] | None = None

    @classmethod
    def of(
        cls, columns: Sequence[Column], rows: Sequence[Sequence[Any]], kinds: Sequence[RowKind] | None = None
    ) -> Draft:
        named = [(column.name, type_text(column.type.to_json())) for column in columns]
        return cls(columns=named, rows=rows, kinds=kinds)

    def to_json(self, *, flagged: bool = False) -> dict[str, Any]:
        """Return the result as JSON. If *flagged*, each row has a flag that is false for a deleted row."""
        columns = [{"name": name, "type": type_} for name, type_ in self.columns]
        added = [True] * len(self.rows) if self.kinds is None else [kind.adds for kind in self.kinds]
        return {"columns": columns, "data": list(self.rows), **({"change_flags": added} if flagged else {})}


def affected(count: int | None, *, first: bool) -> Draft:
    """Return a page with the number of rows that a change wrote. Only the *first* page has this row."""
    rows = [[SUCCESS_NO_INFO if count is None else count]] if first else []
    return Draft(columns=[("affected_row_count", BIGINT)], rows=rows)


def shown(result: OperationResult, kind: str, page: Page, views: Collection[str]) -> Draft:
    """Return *page* of a statement of type *kind* in the form of the appendix. Other types are unchanged.

    *views* are the names that SHOW TABLES lists as views.
    """
    if result.result_kind is ResultKind.SUCCESS:
        return Draft(columns=[("affected_row_count", BIGINT)], rows=[[0]])
    names, rows = [column.name for column in result.rows.columns], page.rows
    if kind == "DESCRIBE":
        schema = {"columns": [dict(zip(names, row, strict=True)) for row in rows]}
        return Draft(columns=[("table_schema", VARCHAR)], rows=[[orjson.dumps(schema).decode()]])
    if kind not in _SHOWN:
        return Draft.of(result.rows.columns, rows, page.kinds)
    # Spark's SHOW TABLES returns the namespace before the name.
    at = next((at for at, name in enumerate(names) if name in {"table name", "tableName"}), 0)
    if kind == "SHOW_TABLES":
        tables = [[row[at], "VIEW" if row[at] in views else "TABLE"] for row in rows]
        return Draft(columns=[(_SHOWN[kind], VARCHAR), ("type", VARCHAR)], rows=tables)
    return Draft(columns=[(_SHOWN[kind], VARCHAR)], rows=[[row[at]] for row in rows])


def type_text(body: Mapping[str, Any]) -> str:
    """Return a type as in SQL, such as INT or DECIMAL(10, 2) NOT NULL. An unlimited string is VARCHAR."""
    root = body["type"]
    text = _NAMES.get(root, root)
    match root:
        case "ARRAY" | "MULTISET":
            text += f"<{type_text(body['elementType'])}>"
        case "MAP":
            text += f"<{type_text(body['keyType'])}, {type_text(body['valueType'])}>"
        case "ROW":
            members = (f"`{each['name']}` {type_text(each['fieldType'])}" for each in body["fields"])
            text += f"<{', '.join(members)}>"
        case "DECIMAL":
            text += f"({body['precision']}, {body['scale']})"
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            text += "" if body["length"] == STRING_LENGTH else f"({body['length']})"
        case _:
            text += f"({body['precision']})" if "precision" in body and "INTERVAL" not in root else ""
    return text if body.get("nullable", True) else f"{text} NOT NULL"
