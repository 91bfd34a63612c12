"""Kafka in a real gateway: topics of a real broker as sources and sinks of batches and of streaming jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

import pytest

from mt_core.client.http import GatewayClient
from mt_core.errors import GatewayError
from mt_core.spark.driver.jars import add_jars
from tests.integration.kafka_broker import KafkaBroker, kafka_broker
from tests.support.gateway.own_process import GatewayUnderTest, Row, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
WAIT_S = 120.0
_topics = count(1)


class Port:
    """A gateway and a broker, with a topic and a table of Iceberg of the test's own."""

    def __init__(self, gateway: GatewayUnderTest, broker: KafkaBroker) -> None:
        self.gateway, self.broker = gateway, broker
        self.topic = f"ships_{next(_topics)}"
        self.lake = self.topic.replace("ships", "landed")

    def table(self, columns: str = "number INT", name: str = "ships", **options: str | None) -> str:
        """Return the statement that creates a temporary table over the topic; None leaves an option out."""
        written = {
            "connector": "kafka",
            "topic": self.topic,
            "properties.bootstrap.servers": self.broker.address,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
        }
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in written.items() if value is not None)
        return f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({pairs})"

    def upserts(self, columns: str, name: str) -> str:
        """Return the statement that creates a table over the topic whose records set and delete rows."""
        options = {"connector": "upsert-kafka", "key__format": "raw", "value__format": "json"}
        return self.table(columns, name, format=None, scan__startup__mode=None, **options).replace(
            "TEMPORARY ", ""
        )

    def run(self, *statements: str) -> list[Row]:
        """Run statements in a session of their own, and return the rows of the last."""
        with self.gateway.client() as client:
            return [rows_of(client, each) for each in statements][-1]

    def sail(self, *numbers: int) -> None:
        """Add records to the topic."""
        self.run(self.table(), f"INSERT INTO ships VALUES {', '.join(f'({each})' for each in numbers)}")

    def submit(self, statement: str, *before: str) -> str:
        """Begin a streaming job in a session that is closed at once, and return its id."""
        [answer] = self.run("SET 'execution.runtime-mode' = 'streaming'", *before, statement)
        return str(answer["job id"])

    def job(self, job_id: str) -> Row:
        [job] = self.run(f"DESCRIBE JOB '{job_id}'")
        return job

    def wait_landed(self, numbers: Sequence[int]) -> None:
        wait_until(lambda: len(self.landed()) >= len(numbers), f"rows are missing: {numbers}", WAIT_S)
        assert self.landed() == list(numbers)

    def landed(self) -> list[int]:
        return sorted(row["number"] for row in self.run(f"SELECT number FROM {self.lake}"))

    def wait_rows(self, table: str, rows: Mapping[str, int]) -> None:
        """Wait until a table has for each city its number, and no other row."""

        def found() -> dict[str, int]:
            return {row["city"]: row["n"] for row in self.run(f"SELECT city, n FROM {table}")}

        wait_until(lambda: found() == rows, f"other rows than {rows}", WAIT_S)

    def wait_ended(self, job_id: str) -> Row:
        wait_until(lambda: self.job(job_id)["status"] in ("FAILED", "FINISHED"), "the job goes on", WAIT_S)
        return self.job(job_id)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    add_jars("kafka", os.environ, print)
    with GatewayUnderTest(tmp_path_factory.mktemp("gateway") / "home") as gateway:
        gateway.start()
        yield gateway


@pytest.fixture
def port(gateway: GatewayUnderTest, broker: KafkaBroker) -> Port:
    return Port(gateway, broker)


CREATE = "CREATE MATERIALIZED TABLE {} FRESHNESS = INTERVAL '2' SECOND AS "


def to_table(port: Port) -> str:
    return f"INSERT INTO {port.lake} SELECT number FROM ships"


def topic_to_table(port: Port) -> Sequence[str]:
    """Begin a job from a topic to a table, and add a record just before the kill."""
    port.run(f"CREATE TABLE {port.lake} (number INT)")
    port.sail(1, 2)
    job_id = port.submit(to_table(port), port.table())
    port.wait_landed([1, 2])
    port.sail(3)
    return (job_id,)


def through_tables_that_stay(port: Port) -> Sequence[str]:
    """Begin a job that writes to a table of the registry over a topic,
    and one that reads another one over it.
    """
    kept, own = f"lake.default.kept_{port.topic}", f"spark_catalog.default.own_{port.topic}"
    columns = "number INT, place BIGINT METADATA FROM 'offset' VIRTUAL, twice AS number * 2"
    port.run(f"CREATE TABLE {port.lake} (number INT)", f"CREATE TABLE from_{port.lake} (number INT)")
    port.run(port.table(columns, kept, properties__ssl__key__password="hidden").replace("TEMPORARY ", ""))
    port.run(port.table(columns, own).replace("TEMPORARY ", ""))
    out = port.submit(f"INSERT INTO {kept} SELECT number FROM from_{port.lake}")
    back = port.submit(f"INSERT INTO {port.lake} SELECT twice FROM {own}")
    port.run(f"INSERT INTO from_{port.lake} VALUES (1)")
    port.wait_landed([2])
    return kept, own, out, back


def rows_that_change(port: Port) -> Sequence[str]:
    """Begin a job that writes sums to a topic by key, and one that reads them back."""
    source, totals, back = f"from_{port.lake}", f"lake.default.totals_{port.topic}", f"back_{port.lake}"
    columns = (
        "city STRING, n BIGINT, twice AS n * 2, place BIGINT METADATA "
        "FROM 'offset' VIRTUAL, PRIMARY KEY (city) NOT ENFORCED"
    )
    *_, shown = port.run(port.upserts(columns, totals), f"SHOW CREATE TABLE {totals}")
    port.run(
        *(
            f"DROP TABLE {totals}",
            str(shown["result"]),
            f"INSERT INTO {totals} VALUES ('Bern', 6), ('Bern', 7)",
        ),
        f"CREATE TABLE {source} AS SELECT * FROM VALUES ('Oslo', 1), ('Rome', 2), ('Oslo', 3) AS t(city, n)",
        f"CREATE TABLE {back} (city STRING, n BIGINT, PRIMARY KEY (city) NOT ENFORCED)",
    )
    out = port.submit(
        f"INSERT INTO {totals} SELECT city, sum(n) FROM {source} GROUP BY city HAVING sum(n) < 100"
    )
    back_id = port.submit(f"INSERT INTO {back} SELECT city, n FROM {totals}")
    port.wait_rows(back, {"Bern": 7, "Oslo": 4, "Rome": 2})
    return source, totals, back, out, back_id


def materialized(port: Port) -> Sequence[str]:
    """Create a materialized table over a topic, and one over that."""
    lasting = f"lake.default.{port.topic}"
    port.run(port.table(name=lasting).replace("TEMPORARY ", ""))
    port.sail(1, 2)
    port.run(CREATE.format(port.lake) + f"SELECT number FROM {lasting} WHERE number < 100")
    port.run(CREATE.format(f"sum_{port.lake}") + f"SELECT sum(number) AS number FROM {port.lake}")
    port.wait_landed([1, 2])
    return (lasting,)


Begin = Callable[[Port], Sequence[str]]
Killed = Mapping[Begin, tuple[Port, Sequence[str]]]


def killed_under(gateway: GatewayUnderTest, broker: KafkaBroker, *begins: Begin) -> Killed:
    """Begin something, kill the gateway once under all of it and start it again;
    return the names that each goes by.
    """
    begun: dict[Begin, tuple[Port, Sequence[str]]] = {}
    for begin in begins:
        port = Port(gateway, broker)
        begun[begin] = port, begin(port)
    gateway.kill()
    gateway.start()
    return begun


@pytest.fixture(scope="module")
def killed(gateway: GatewayUnderTest, broker: KafkaBroker) -> Killed:
    return killed_under(gateway, broker, topic_to_table, rows_that_change)


@pytest.fixture(scope="module")
def killed_too(gateway: GatewayUnderTest, broker: KafkaBroker) -> Killed:
    """What CI leaves out."""
    return killed_under(gateway, broker, through_tables_that_stay, materialized)


def test_a_batch_reads_the_records_that_a_topic_has_with_what_kafka_says_of_them(port: Port) -> None:
    columns = (
        "number INT, name STRING, at TIMESTAMP_LTZ(3), day AS CAST(at AS DATE), notes MAP<STRING, BYTES> "
        "METADATA FROM 'headers', place BIGINT METADATA FROM 'offset' VIRTUAL, topic STRING METADATA VIRTUAL"
    )
    keyed = port.table(columns, key__format="raw", key__fields="name", value__fields_include="EXCEPT_KEY")

    rows = port.run(
        keyed,
        "INSERT INTO ships VALUES (1, 'Vega', TIMESTAMP '2026-01-02 03:04:05.678', map('flag', X'4E4F'))",
        "INSERT INTO ships (name, number) SELECT 'Lyra', 2",
        "SELECT number, name, CAST(at AS STRING) AS at, CAST(day AS STRING) AS day, "
        "CAST(notes['flag'] AS STRING) AS flag, place, topic FROM ships ORDER BY number",
    )
    texts = port.run(
        port.table("v STRING", format="raw", scan__bounded__mode="latest-offset"), "SELECT * FROM ships"
    )
    lost = f"lake.default.lost_{port.topic}"
    port.run(port.table(name=lost, topic="never_made").replace("TEMPORARY ", ""))
    with pytest.raises(GatewayError, match=f"does not have the topic never_made of table {lost}"):
        port.run(f"SELECT * FROM {lost}")
    with pytest.raises(GatewayError, match="does not have the topic never_made of table ships"):
        port.run(port.table(topic="never_made"), f"INSERT INTO {lost} SELECT count(*) FROM ships")

    assert rows == [
        {
            "number": 1,
            "name": "Vega",
            "at": "2026-01-02 03:04:05.678",
            "day": "2026-01-02",
            "flag": "NO",
            "place": 0,
            "topic": port.topic,
        },
        {"number": 2, "name": "Lyra", "at": None, "day": None, "flag": None, "place": 1, "topic": port.topic},
    ]
    assert [row["v"] for row in texts] == [
        '{"number":1,"at":"2026-01-02 03:04:05.678000Z"}',
        '{"number":2,"at":null}',
    ]


def test_a_job_from_a_topic_to_a_table_survives_kills_and_savepoints_and_each_record_arrives_once(
    killed: Killed,
) -> None:
    port, (job_id,) = killed[topic_to_table]

    port.sail(4, 5)
    port.wait_landed([1, 2, 3, 4, 5])
    wait_until(
        lambda: f'"{port.topic}": {{"0": 5}}' in str(port.job(job_id)["offsets"]), "no offsets", WAIT_S
    )
    [saved] = port.run(f"STOP JOB '{job_id}' WITH SAVEPOINT")
    port.sail(6)
    next_id = port.submit(
        to_table(port), port.table(), f"SET 'execution.savepoint.path' = '{saved['savepoint path']}'"
    )
    port.wait_landed([1, 2, 3, 4, 5, 6])
    port.run(f"STOP JOB '{next_id}'")


@pytest.mark.kills
def test_a_table_that_stays_is_read_and_written_by_every_session_and_by_jobs_through_a_kill(
    killed_too: Killed,
) -> None:
    port, (kept, own, out, back) = killed_too[through_tables_that_stay]
    rows = "SELECT number, place, twice FROM {} ORDER BY place"

    port.run(f"INSERT INTO from_{port.lake} VALUES (2)")
    port.wait_landed([2, 4])
    port.run(f"INSERT INTO {own} SELECT 3")
    port.wait_landed([2, 4, 6])
    [shown] = port.run(f"SHOW CREATE TABLE {kept}")
    port.run(f"STOP JOB '{back}'", f"STOP JOB '{out}'")
    port.run(f"ALTER TABLE {kept} RENAME TO default.sailed_{port.topic}")
    kept = f"lake.default.sailed_{port.topic}"
    found = [port.run(rows.format(each)) for each in (kept, own)]
    with pytest.raises(GatewayError, match=r"cannot have refresh mode FULL, since .* is unbounded"):
        port.run(f"CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' DAY AS SELECT number FROM {own}")
    port.run(f"DROP TABLE {kept}", f"DROP TABLE {own}")
    left = port.run("SHOW TABLES IN lake.default") + port.run("SHOW TABLES IN spark_catalog.default")

    assert found == [[{"number": each, "place": each - 1, "twice": 2 * each} for each in (1, 2, 3)]] * 2
    assert "hidden" not in str(shown)
    assert "`place` BIGINT METADATA FROM 'offset' VIRTUAL" in str(shown)
    assert port.topic not in str(left)


def test_a_job_writes_the_rows_of_a_table_to_a_topic_and_a_select_goes_on_with_its_records(
    port: Port,
) -> None:
    port.run(f"CREATE TABLE {port.lake} (number INT)")
    port.run(f"INSERT INTO {port.lake} VALUES (1), (2)")

    job_id = port.submit(f"INSERT INTO ships SELECT number FROM {port.lake}", port.table())
    with port.gateway.client() as client:
        for each in ("SET 'execution.runtime-mode' = 'streaming'", port.table()):
            rows_of(client, each)
        followed = _followed(client, "SELECT number FROM ships")
        first = sorted(islice(followed, 2))
        port.run(f"INSERT INTO {port.lake} VALUES (3)")
        third = next(followed)
        followed.close()
    port.run(f"STOP JOB '{job_id}'")

    assert (first, third) == ([1, 2], 3)


def test_rows_that_change_go_through_a_topic_by_key_and_come_back_whole_after_a_kill(killed: Killed) -> None:
    port, (source, totals, back, out, back_id) = killed[rows_that_change]

    port.run(f"INSERT INTO {source} VALUES ('Rome', 200), ('Oslo', 5)")
    port.wait_rows(back, {"Bern": 7, "Oslo": 9})
    found = port.run(f"SELECT city, n, twice FROM {totals} ORDER BY city")
    [plan] = port.run(
        "SET 'execution.runtime-mode' = 'streaming'", f"EXPLAIN CHANGELOG_MODE SELECT n FROM {totals}"
    )
    port.run(f"STOP JOB '{back_id}'", f"STOP JOB '{out}'", f"DROP TABLE {totals}")

    assert found == [{"city": "Bern", "n": 7, "twice": 14}, {"city": "Oslo", "n": 9, "twice": 18}]
    assert "ChangelogNormalize(" in str(plan)
    assert "state=[changelogNormalizeState: for ever]" in str(plan)


def test_what_a_table_of_upserts_cannot_be_is_refused_and_of_the_rows_of_a_key_the_last_one_is_sent(
    port: Port,
) -> None:
    totals = f"lake.default.totals_{port.topic}"
    port.run(port.upserts("city STRING PRIMARY KEY NOT ENFORCED, n INT", totals))

    with pytest.raises(
        GatewayError, match=r"'upsert-kafka' updates and deletes rows by key.* with the same PRIMARY KEY"
    ):
        port.run(f"CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '5' SECOND AS SELECT n FROM {totals}")
    with pytest.raises(
        GatewayError, match=f"INSERT INTO {totals} gives no value for city of its PRIMARY KEY"
    ):
        port.run(f"INSERT INTO {totals} (n) SELECT 1")
    with pytest.raises(GatewayError, match="NULL in column city of its PRIMARY KEY"):
        port.run(f"INSERT INTO {totals} SELECT CAST(NULL AS STRING), 1")
    port.run(
        f"INSERT INTO {totals} VALUES ('Oslo', 1), ('Rome', 2), ('Oslo', 3)",
        f"INSERT INTO {totals} (city) SELECT 'Rome'",
    )
    values = port.run(port.table("v STRING", format="raw"), "SELECT v FROM ships")
    found = port.run(f"SELECT * FROM {totals} ORDER BY city")
    port.run(f"DROP TABLE {totals}")

    assert sorted(row["v"] for row in values) == [
        '{"city":"Oslo","n":3}',
        '{"city":"Rome","n":2}',
        '{"city":"Rome","n":null}',
    ]
    assert found == [{"city": "Oslo", "n": 3}, {"city": "Rome", "n": None}]


def test_a_window_over_the_watermark_of_a_topic_is_written_once_it_is_over(port: Port) -> None:
    timed = port.table("number INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND")
    add = "INSERT INTO ships VALUES (1, TIMESTAMP '2026-01-01 00:0{}')"
    port.run(f"CREATE TABLE {port.lake} (number INT)")
    port.run(timed, add.format("0:01"), add.format("0:02"), add.format("1:00"))
    job_id = port.submit(
        f"INSERT INTO {port.lake} SELECT CAST(count(*) AS INT) FROM ships GROUP BY window(at, '10 seconds')",
        timed,
    )
    wait_until(lambda: f'"{port.topic}": {{"0": 3}}' in str(port.job(job_id)["offsets"]), "not read", WAIT_S)

    port.run(timed, add.format("2:00"))

    port.wait_landed([2])
    port.run(f"STOP JOB '{job_id}'")


@pytest.mark.kills
def test_a_materialized_table_over_a_topic_has_each_record_once_and_another_one_sums_it(
    killed_too: Killed,
) -> None:
    port, (lasting,) = killed_too[materialized]

    with pytest.raises(
        GatewayError,
        match=f"more_{port.lake} cannot be maintained by a streaming job: .*may not use aggregates",
    ):
        port.run(CREATE.format(f"more_{port.lake}") + f"SELECT sum(number) AS number FROM {lasting}")
    with pytest.raises(
        GatewayError, match="write its rows into a table with a streaming INSERT, and read that"
    ):
        port.run(port.table(), CREATE.format(f"more_{port.lake}") + "SELECT number FROM ships")
    port.sail(3, 100)
    port.wait_landed([1, 2, 3])
    port.run(f"ALTER MATERIALIZED TABLE {port.lake} SUSPEND")
    port.sail(4)
    port.run(f"ALTER MATERIALIZED TABLE {port.lake} RESUME")
    port.wait_landed([1, 2, 3, 4])
    wait_until(
        lambda: port.run(f"SELECT number FROM sum_{port.lake}") == [{"number": 10}], "no refresh", WAIT_S
    )
    with pytest.raises(
        GatewayError, match=f"DROP MATERIALIZED TABLE lake.default.{port.lake} first, which the job maintains"
    ):
        port.run(f"DROP TABLE {lasting}")
    port.run(f"DROP MATERIALIZED TABLE {port.lake}", f"DROP TABLE {lasting}")


def test_a_record_that_its_format_cannot_read_ends_the_job_or_is_passed_over(port: Port) -> None:
    port.run(f"CREATE TABLE {port.lake} (number INT)")
    port.run(
        port.table("v STRING", format="raw"), """INSERT INTO ships VALUES ('{"number": 1}'), ('no json')"""
    )
    insert = f"INSERT INTO {port.lake} SELECT number FROM ships"

    failed = port.wait_ended(port.submit(insert, port.table()))
    job_id = port.submit(insert, port.table(json__ignore_parse_errors="true"))
    port.wait_landed([1])
    port.run(f"STOP JOB '{job_id}'")

    assert failed["status"] == "FAILED"
    assert f"A record of ships (topic {port.topic}) cannot be read" in failed["error"]
    assert "'json.ignore-parse-errors' = 'true'" in failed["error"]


def test_records_that_are_gone_before_they_were_read_end_the_job_with_their_topic_and_offsets(
    port: Port,
) -> None:
    port.run(f"CREATE TABLE {port.lake} (number INT)")
    port.sail(1, 2, 3)
    job_id = port.submit(f"INSERT INTO {port.lake} SELECT number FROM ships", port.table())
    port.wait_landed([1, 2, 3])

    port.broker.lose_everything()
    port.sail(4)
    failed = port.wait_ended(job_id)

    assert failed["status"] == "FAILED"
    assert f"Records of ships (topic {port.topic}) that the stream has not read are gone" in failed["error"]
    # The stream may look between the creation of the topic and its first record.
    assert re.search(f"Partition {port.topic}-0 offset was changed from 3 to [01]", failed["error"])
    assert "'failOnDataLoss' = 'false'" in failed["error"]


def _followed(client: GatewayClient, query: str) -> Generator[Any, None, None]:
    for page in client.pages(client.execute(query)):
        for row in page.rows:
            yield row[0]
