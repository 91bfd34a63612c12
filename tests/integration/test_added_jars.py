from __future__ import annotations

import itertools
import subprocess
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mt_core.errors import QueryFailed
from mt_core.sessions.ports import SessionContext
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from tests.conftest import START_TIMEOUT_S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(START_TIMEOUT_S)]

_numbers = itertools.count()


class Asker:
    """A session of a gateway."""

    def __init__(self, driver: SparkDriver) -> None:
        self.engine = SparkStatements(driver)
        self.context = SessionContext(session_id=f"jars-{next(_numbers)}", properties={})

    def rows(self, sql: str) -> list[list[Any]]:
        rows = self.engine.execute(self.context, sql, job_id=f"jars-job-{next(_numbers)}").rows
        return rows.page(0, 100) if rows is not None else []


def words_jar(folder: Path, name: str) -> Path:
    """Return a jar with a class whose static method shouts."""
    source = folder / f"{name}.java"
    source.write_text(
        f'package shop; public final class {name} {{ public static String shout(String word) {{ return word + "!"; }} }}'
    )
    subprocess.run(["javac", "--release", "17", "-d", folder / "classes", source], check=True, capture_output=True)
    jar = folder / f"{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.write(folder / "classes" / "shop" / f"{name}.class", f"shop/{name}.class")
    return jar


def in_another_thread(work: Callable[[], list[list[Any]]]) -> list[list[Any]] | BaseException:
    answers: list[list[list[Any]] | BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # noqa: BLE001
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return answers[0]


def test_the_class_of_an_added_jar_is_called_from_sql_by_any_thread_and_session(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    one, other = Asker(spark_driver), Asker(spark_driver)
    call, on_rows = (
        "SELECT reflect('shop.Words', 'shout', 'a')",
        "java_method('shop.Words', 'shout', CAST(id AS STRING))",
    )
    with pytest.raises(QueryFailed, match=r"class shop\.Words not found"):
        one.rows(call)

    one.engine.add_jar(one.context, str(words_jar(tmp_path, "Words")))

    assert one.rows(call) == [["a!"]]
    assert in_another_thread(lambda: one.rows(call)) == [["a!"]]
    assert in_another_thread(lambda: other.rows(f"SELECT {on_rows} FROM range(2) ORDER BY id")) == [["0!"], ["1!"]]
    with pytest.raises(QueryFailed, match=r"reflect\('class', 'method'"):
        other.rows("CREATE FUNCTION shout AS 'shop.Words'")
    one.rows("CREATE TEMPORARY FUNCTION shout AS 'shop.Words'")
    with pytest.raises(QueryFailed, match=r"reflect\('class', 'method'"):
        one.rows("SELECT shout('a')")


@pytest.mark.postgres
def test_a_jdbc_table_and_catalog_need_no_driver(spark_driver: SparkDriver, postgres_database: str) -> None:
    from mt_core.sql.flink.catalog_options import catalog_settings
    from mt_core.sql.parser import parse

    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE people (id int, city text)")
        connection.execute("INSERT INTO people VALUES (1, 'Rome')")
        url = f"jdbc:postgresql://{postgres_database.partition('@')[2]}"
        created: Any = parse(
            "CREATE TEMPORARY TABLE people (id INT, city STRING) WITH "
            f"('connector' = 'jdbc', 'url' = '{url}', 'table-name' = 'people', 'username' = 'freshtable')"
        )
        asker = Asker(spark_driver)

        asker.rows(created.spark_sql)
        read = asker.rows("SELECT * FROM people")
        asker.rows("INSERT INTO people VALUES (2, 'Oslo')")
        options = {"type": "jdbc", "url": url, "username": "freshtable"}
        asker.context = SessionContext(session_id=asker.context.session_id, properties=catalog_settings("pg", options))
        through_catalog = asker.rows("SELECT * FROM pg.public.people ORDER BY id")

        assert read == [[1, "Rome"]]
        assert through_catalog == [[1, "Rome"], [2, "Oslo"]]
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (2,)
