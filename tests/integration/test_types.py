"""Every type of Spark in both row formats, against one golden file each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mt_core.base.plain_text import plain_rows
from mt_core.base.rowset import PageForm
from mt_core.errors import Unsupported
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "types"
CONTEXT = SessionContext(session_id="types", properties={"table.local-time-zone": "Asia/Tokyo"})


@pytest.fixture(scope="module")
def shown(module_driver: SparkDriver) -> dict[str, Any]:
    """What one query answers for the expressions of all golden files;
    `json` is the value as it is on the wire.
    """
    engine = SparkStatements(SparkContexts(module_driver))
    expressions = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))["sql"]
        for file in sorted(GOLDEN.glob("*.json"))
    }
    columns = ", ".join(f"{sql} AS `{name}`" for name, sql in expressions.items())
    rows = engine.execute(CONTEXT, f"SELECT {columns}", job_id="types").rows
    assert rows is not None
    page = rows.page(0, 2)
    assert rows.encoded(0, 2, PageForm.JSON) == bytes(
        JsonAnswer([{"kind": "INSERT", "fields": page[0]}]).body
    )
    [values], [texts] = page, plain_rows(rows.columns, page)
    return {
        column.name: {
            "sql": expressions[column.name],
            "logicalType": column.type.to_json(),
            "json": bytes(JsonAnswer(value).body).decode(),
            "plain_text": text,
        }
        for column, value, text in zip(rows.columns, values, texts, strict=True)
    }


@pytest.mark.parametrize("name", sorted(file.stem for file in GOLDEN.glob("*.json")))
def test_a_type_and_its_values_are_golden(shown: dict[str, Any], name: str) -> None:
    assert shown[name] == json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def test_a_map_with_nested_keys_is_refused_before_it_runs(spark_driver: SparkDriver) -> None:
    engine = SparkStatements(SparkContexts(spark_driver))
    query = "SELECT MAP(ARRAY(id), raise_error('not reached')) AS m FROM VALUES (1) AS t(id)"

    with pytest.raises(Unsupported, match=r"Column m has a map<array<int>,void>.*map_entries"):
        engine.execute(CONTEXT, query, job_id="nested")
