from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors.exceptions.base import UnsupportedOperationException

from mt_core.errors import ConfigError, DefinitionInvalid, QueryFailed
from mt_core.sessions.ports import SessionContext
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.files.jar_copies import JarCopies
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.tables.engine import Query
from tests.support.added_jar import words_jar
from tests.support.buckets import S3
from tests.support.buckets import object_stores as object_stores

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

_numbers = itertools.count()


class Asker:
    """A session of a gateway."""

    def __init__(self, driver: SparkDriver) -> None:
        self.engine = SparkStatements(SparkContexts(driver))
        self.context = SessionContext(session_id=f"jars-{next(_numbers)}", properties={})

    def rows(self, sql: str) -> list[list[Any]]:
        rows = self.engine.execute(self.context, sql, job_id=f"jars-job-{next(_numbers)}").rows
        return rows.page(0, 100) if rows is not None else []


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
    assert in_another_thread(lambda: other.rows(f"SELECT {on_rows} FROM range(2) ORDER BY id")) == [
        ["0!"],
        ["1!"],
    ]
    with pytest.raises(QueryFailed, match="Leave the database out"):
        other.rows("CREATE FUNCTION shop.shout AS 'shop.Words'")


def test_the_class_of_an_added_jar_is_found_by_a_thread_that_analyses_a_query(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    asker, engine = Asker(spark_driver), spark_engine(SparkContexts(spark_driver))
    query = Query(
        text="SELECT reflect('shop.Analysed', 'shout', 'a') AS word", catalog="lake", namespace=("default",)
    )

    asker.engine.add_jar(asker.context, str(words_jar(tmp_path, "Analysed")))
    analysed = in_another_thread(lambda: [[column.name] for column in engine.queries.analyse(query).columns])

    assert analysed == [["word"]]


def test_functions_of_sql_with_parameters_are_refused_because_icebergs_parser_fails(
    spark_driver: SparkDriver,
) -> None:
    with pytest.raises(UnsupportedOperationException):
        spark_driver.new_session().sql("CREATE TEMPORARY FUNCTION one_more(x INT) RETURNS INT RETURN x + 1")


@pytest.mark.postgres
def test_a_jdbc_table_and_catalog_need_no_driver(spark_driver: SparkDriver, postgres_database: str) -> None:
    from mt_core.sql.connectors.catalog_options import catalog_settings
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
        asker.context = SessionContext(
            session_id=asker.context.session_id, properties=catalog_settings("pg", options)
        )
        through_catalog = asker.rows("SELECT * FROM pg.public.people ORDER BY id")

        assert read == [[1, "Rome"]]
        assert through_catalog == [[1, "Rome"], [2, "Oslo"]]
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (2,)


@pytest.mark.usefixtures("object_stores")
def test_the_class_of_a_jar_in_an_object_store_or_on_a_file_system_of_hadoop_is_called(
    spark_driver: SparkDriver, tmp_path: Path
) -> None:
    asker, copies = Asker(spark_driver), tmp_path / "copies"
    asker.engine = SparkStatements(SparkContexts(spark_driver), jars=JarCopies(copies))
    hadoop = spark_driver.session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.jars.link./dir", tmp_path.as_uri())
    first, second = words_jar(tmp_path, "FetchedWords"), words_jar(tmp_path, "ViewedWords")
    with (
        S3() as store,
        pytest.raises(DefinitionInvalid, match=r"ADD JAR: s3://bucket/words\.jar\?.* cannot be read"),
    ):
        asker.engine.add_jar(asker.context, store.uri("words.jar"))

    with S3() as store:
        store.objects["words.jar"] = first.read_bytes()
        asker.engine.add_jar(asker.context, store.uri("words.jar"))
    asker.engine.add_jar(asker.context, f"viewfs://jars/dir/{second.name}")
    second.unlink()

    assert asker.rows("SELECT reflect('shop.FetchedWords', 'shout', 'a')") == [["a!"]]
    assert asker.rows("SELECT reflect('shop.ViewedWords', 'shout', 'b')") == [["b!"]]
    assert len(list(copies.glob("*.jar"))) == 2
    with pytest.raises(ConfigError, match="add hadoop-aliyun"):
        asker.engine.add_jar(asker.context, "oss://bucket/words.jar")
