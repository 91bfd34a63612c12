"""Each engine reads or refuses the forms in which refreshes store changed rows, as its page says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from tests.depth import DEPTH
from tests.integration.duckdb_python import duckdb_python
from tests.integration.maintained_world import take_tables_for_large
from tests.integration.refresh_world import RefreshWorld, Row, in_order
from tests.integration.refresh_world import world as world
from tests.integration.trino_server import running_trino

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs/how-to/read-with-other-engines.md"
GROUPS = "SELECT k % 7 AS part, count(*) AS n, max(v) AS v FROM changed GROUP BY k % 7"
FORMS = {
    "appends": ("SELECT k, v FROM appended", ""),
    "copy-on-write": (GROUPS, ", 'write.merge.mode' = 'copy-on-write'"),
    "position deletes": (GROUPS, ""),
    "deletion vectors": (GROUPS, ", 'format-version' = '3'"),
    "equality deletes": (GROUPS, ", 'write.upsert' = 'equality-delete'"),
}
"""The columns of the page, with the query and the options of a table that is stored in this form."""
DELETES = {
    "position deletes": [(1, "PARQUET")],
    "deletion vectors": [(1, "PUFFIN")],
    "equality deletes": [(2, "PARQUET")],
}
REFUSALS = {
    "PyIceberg": "PyIceberg does not yet support equality deletes",
    "Trino": "Unexpected PUFFIN file format",
}
"""How an engine that does not read a form says so."""
Read = Callable[[str, str], Sequence[Sequence[object]]]
"""Returns the rows of a table by its name and metadata file. Raises ValueError if the engine refuses it."""


def test_engines_read_what_the_page_says(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    take_tables_for_large(monkeypatch, True, files=False)
    tables = stored(world)
    rows = {form: world.plain(query) for form, (query, _) in FORMS.items()}
    engines: dict[str, Read] = {
        "Spark": lambda name, _: world.rows(name),
        "PyIceberg": by_pyiceberg,
        "DuckDB": by_duckdb,
    }

    with ExitStack() as stack:
        if DEPTH > 1:
            engines["Trino"] = stack.enter_context(running_trino(tmp_path / "trino")).rows_of_table
        read = {
            engine: {form: outcome(engine, read, table, rows[form]) for form, table in tables.items()}
            for engine, read in engines.items()
        }

    page = documented()
    assert read == {engine: page[engine] for engine in engines}
    assert page.keys() == {*engines, "Trino"}


def stored(world: RefreshWorld) -> dict[str, tuple[str, str]]:
    """Create a table for each form, and refresh it after a change of its source.

    Return its name and its newest metadata file.
    """
    some = "AS SELECT CAST(id AS INT) AS k, CAST(id % 40 AS INT) AS v FROM range(250)"
    world.spark(f"CREATE TABLE appended USING iceberg {some}", f"CREATE TABLE changed USING iceberg {some}")
    names = {form: form.replace("-", "_").replace(" ", "_") for form in FORMS}
    for form, (query, options) in FORMS.items():
        world.create(names[form], query, clauses=f"WITH ('refresh.strategy' = 'incremental'{options})")
    world.spark("INSERT INTO appended VALUES (7, 100)", "UPDATE changed SET v = 200 WHERE k = 15")
    ways = {}
    for form, name in names.items():
        run = world.tick(name, world.clock.now()) if ways else world.tick(name)
        ways[form] = run.strategy
        deletes = f"SELECT DISTINCT content, file_format FROM lake.{world.namespace}.{name}.delete_files"
        assert world.plain(deletes) == DELETES.get(form, []), form
    assert ways == {form: "append" if form == "appends" else "stages" for form in FORMS}
    return {form: (name, metadata_file(world, name)) for form, name in names.items()}


def metadata_file(world: RefreshWorld, name: str) -> str:
    log = f"lake.{world.namespace}.{name}.metadata_log_entries"
    [(file,)] = world.plain(f"SELECT file FROM {log} ORDER BY timestamp DESC LIMIT 1")
    return str(file)


def by_pyiceberg(_: str, file: str) -> Sequence[Sequence[object]]:
    rows = StaticTable.from_metadata(file).scan().to_arrow().to_pylist()
    return [tuple(row.values()) for row in rows]


def by_duckdb(_: str, file: str) -> Sequence[Sequence[object]]:
    command = [duckdb_python(), Path(__file__).with_name("duckdb_reader.py"), file.removeprefix("file:")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode != 0:
        raise ValueError(ended.stderr)
    return json.loads(ended.stdout)


def outcome(engine: str, read: Read, table: tuple[str, str], rows: list[Row]) -> str:
    """Return what the page says of an engine that reads the *table* in this way."""
    try:
        return "yes" if in_order(map(tuple, read(*table))) == rows else "other rows"
    except ValueError as error:
        return "no" if engine in REFUSALS and REFUSALS[engine] in str(error) else str(error)


def documented() -> dict[str, dict[str, str]]:
    """Return the table of the page: for each engine and form, whether it is read."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## What each engine reads\n")[2]
    lines = re.findall(r"^\| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    [(_, *forms), *engines] = [line.split(" | ") for line in lines]
    assert forms == list(FORMS)
    return {engine: dict(zip(forms, cells, strict=True)) for engine, *cells in engines}
