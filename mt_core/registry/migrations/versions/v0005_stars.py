"""Stored queries with a star select the columns of their tables by name."""

from __future__ import annotations

import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None

_NO_CODE = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?:``|[^`])*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
# A star in a select list (`SELECT *`, `, *`, `t.*`, `struct(*)`, not `count(*)` or `a * b`), or TABLE t.
_STAR = re.compile(
    r"(?:\b(?:SELECT|DISTINCT|ALL)\b|,|\.)\s*\*|(?<!\bCOUNT)\(\*|\bTABLE\s+[^\s(]|^\s*FROM\b", re.IGNORECASE
)


def upgrade() -> None:
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT table_id, body FROM materialized_tables")).mappings().all()
    for row in rows:
        body = json.loads(row["body"])
        definition = body["definition"]
        if has_star(definition["expanded_query"]):
            definition["expanded_query"] = by_name(definition)
            connection.execute(
                sa.text("UPDATE materialized_tables SET body = :body WHERE table_id = :id"),
                {"body": json.dumps(body, sort_keys=True), "id": row["table_id"]},
            )


def has_star(query: str) -> bool:
    """Return whether *query* selects with a star, so that its columns depend on the current columns of its
    sources.
    """
    # Quoted text becomes a name, so that the star of `t`.* remains visible.
    code = _NO_CODE.sub(lambda found: "x" if found[0][0] in "'\"`" else " ", query)
    return _STAR.search(re.sub(r"\s*\(\s*", "(", code)) is not None


def by_name(definition: dict[str, Any]) -> str:
    """Return the query of *definition* with its columns selected by the table's column names."""
    names = ", ".join("`" + column["name"].replace("`", "``") + "`" for column in definition["columns"])
    return f"SELECT {names} FROM (\n{definition['expanded_query']}\n)"
