"""Registries as release 0.1.0 has left them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, insert, table, text
from sqlalchemy.sql.expression import column

from mt_core.registry.database import MIGRATIONS, parse

SCHEMA = "0015"
ROWS = Path(__file__).parents[1] / "golden" / "registry_v1.json"


def write_earlier_registry(url: str, **rows: list[dict[str, Any]]) -> None:
    """Create a registry with the schema of release 0.1.0, and these rows by table."""
    if url.startswith("sqlite"):
        Path(str(parse(url).database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parse(url))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, SCHEMA)
        for name, stored in rows.items():
            for row in stored:
                connection.execute(insert(table(name, *map(column, row))).values(row))
    engine.dispose()


def earlier_row(kind: str, **changes: Any) -> dict[str, Any]:
    """Return a row of the table *kind* as release 0.1.0 wrote it, with other columns."""
    row: dict[str, Any] = json.loads(ROWS.read_text(encoding="utf-8"))[kind]
    return row | changes


def rows_of(url: str, query: str) -> list[Mapping[str, Any]]:
    """Return the rows of *query* in a registry of any release."""
    engine: Engine = create_engine(parse(url))
    try:
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(text(query)).mappings()]
    finally:
        engine.dispose()


def schema_of(url: str) -> str:
    """Return the last migration of a registry."""
    [row] = rows_of(url, "SELECT version_num FROM alembic_version")
    return str(row["version_num"])
