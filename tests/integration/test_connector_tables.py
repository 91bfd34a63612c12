"""Tables with a connector in a session catalog that has just begun, over what an earlier Spark left."""

from __future__ import annotations

import itertools
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mt_core.model.connector_table import ConnectorTable
from mt_core.spark.catalogs.connector_tables import create_tables
from mt_core.spark.driver.spark_driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_numbers = itertools.count()


def test_tables_have_the_rows_that_are_in_their_folders_and_databases(
    spark_driver: SparkDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session, number = spark_driver.new_session(), next(_numbers)
    names = {each: f"{each}_{number}" for each in ("managed", "parts", "csv", "base", "broken")}
    warehouse = str(session.conf.get("spark.sql.warehouse.dir"))
    session.range(3).write.parquet(f"{warehouse}/{names['managed']}")
    session.sql("SELECT id, id % 2 AS p FROM range(4)").write.partitionBy("p").parquet(f"{warehouse}/{names['parts']}")
    (tmp_path / "rows.csv").write_text("1;Rome\n2;Oslo\n")
    with closing(sqlite3.connect(tmp_path / "base.db")) as database:
        database.executescript("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7)")
    url = f"'url' = 'jdbc:sqlite:{tmp_path}/base.db', 'dbtable' = 't', 'driver' = 'org.sqlite.JDBC'"
    wanted = [
        ("broken", ("`n` NO TYPE",), "USING csv"),
        ("managed", ("`id` BIGINT",), "USING parquet"),
        ("parts", ("`id` BIGINT", "`p` BIGINT"), "USING parquet PARTITIONED BY (`p`)"),
        ("csv", ("`n` INT", "`city` STRING"), f"USING csv OPTIONS ('path' = '{tmp_path}/rows.csv', 'sep' = ';')"),
        ("base", ("`n` DECIMAL(20, 0)",), f"USING jdbc OPTIONS ({url})"),
    ]
    tables = [
        ConnectorTable(name=f"`spark_catalog`.`default`.`{names[name]}`", columns=columns, clauses=clauses)
        for name, columns, clauses in wanted
    ]

    with caplog.at_level(logging.WARNING):
        create_tables(session, tables)
        create_tables(session, tables[1:])
    rows = {
        name: sorted(tuple(row) for row in session.sql(f"SELECT * FROM spark_catalog.default.{names[name]}").collect())
        for name in ("managed", "parts", "csv", "base")
    }
    session.sql(f"INSERT INTO spark_catalog.default.{names['parts']} VALUES (9, 5)")
    session.sql(f"DROP TABLE spark_catalog.default.{names['managed']}")

    assert rows == {
        "managed": [(0,), (1,), (2,)],
        "parts": [(0, 0), (1, 1), (2, 0), (3, 1)],
        "csv": [(1, "Rome"), (2, "Oslo")],
        "base": [(7,)],
    }
    assert session.sql(f"SELECT id FROM spark_catalog.default.{names['parts']} WHERE p = 5").collect()[0][0] == 9
    assert not Path(warehouse, names["managed"]).exists()
    [warning] = [record.getMessage() for record in caplog.records if "of the registry" in record.getMessage()]
    assert names["broken"] in warning
