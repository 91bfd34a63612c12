"""What SHOW, DESCRIBE and EXPLAIN tell about materialized tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mt_core.errors import DefinitionInvalid, TableNotFound
from mt_core.registry.store import SqlRegistry
from mt_core.tables.registry import in_transaction
from tests.support.manager_world import DAILY, WHOLE_TABLE, ManagerWorld

ORDERS = "lake.default.orders"


def names(world: ManagerWorld, clause: str = "") -> list[object]:
    return [row["materialized table"] for row in world.show(f"SHOW MATERIALIZED TABLES {clause} EXTENDED")]


def facts(world: ManagerWorld, name: str = "daily") -> dict[object, object]:
    return {row["name"]: row["type"] for row in world.show(f"DESCRIBE EXTENDED {name}")}


def explained(world: ManagerWorld, clause: str = "") -> list[str]:
    ((text,),) = (tuple(row.values()) for row in world.show(f"EXPLAIN REFRESH daily {clause}"))
    return [line.strip() for line in str(text).splitlines()]


# ------------------------------------------------------------------------------------------------------- SHOW


def several(world: ManagerWorld) -> None:
    for name in ("daily", "daily_2", "dailyx2", "da*ly", "other", "[odd]"):
        world.sql(WHOLE_TABLE.replace("totals", f"`{name}`"))
    world.sql(WHOLE_TABLE.replace("totals", "sales.totals"))


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("", ["[odd]", "da*ly", "daily", "daily_2", "dailyx2", "other", "totals"]),
        ("IN default", ["[odd]", "da*ly", "daily", "daily_2", "dailyx2", "other"]),
        ("LIKE 'daily%'", ["daily", "daily_2", "dailyx2"]),
        ("LIKE 'daily_2'", ["daily_2", "dailyx2"]),
        ("LIKE 'da*ly'", ["da*ly"]),
        ("LIKE '[odd]'", ["[odd]"]),
        ("LIKE 'daily?2'", []),
        ("LIKE 'DAILY'", []),
        ("IN default NOT LIKE '%a%'", ["[odd]", "other"]),
        ("IN sales", ["totals"]),
        ("FROM lake.sales LIKE 't%'", ["totals"]),
    ],
)
def test_show_lists_the_tables_of_a_namespace_whose_names_are_like_the_pattern(
    world: ManagerWorld, clause: str, expected: list[str]
) -> None:
    several(world)

    assert names(world, clause) == expected


def test_show_of_a_namespace_that_does_not_exist_is_refused(world: ManagerWorld) -> None:
    text = world.refused(lambda: names(world, "IN lake.nowhere"), TableNotFound)

    assert text == "Namespace lake.nowhere does not exist; SHOW DATABASES IN lake lists the existing ones."


def test_show_tells_the_last_result_the_last_error_and_that_a_table_is_failing(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.engine.failing["write"] = RuntimeError("no executor")
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    world.work()
    (failing,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    world.work()

    (healed,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    columns = ("health", "last result", "last error")
    assert [failing[column] for column in columns] == ["FAILING", "FAILED", "write failed: no executor"]
    assert [healed[column] for column in columns] == ["OK", "SUCCEEDED", None]


def test_a_table_whose_partition_keeps_failing_is_failing_though_its_last_refresh_succeeded(
    world: ManagerWorld,
) -> None:
    world.sql(DAILY)
    world.work()
    table = world.table()
    failing = replace(table, failing=(table.covered_until + timedelta(days=1),))
    in_transaction(world.registry, lambda tx: tx.tables.replace(failing))

    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert (row["health"], row["last result"]) == ("FAILING", "SUCCEEDED")


def test_a_table_that_missed_its_last_schedule_time_is_late_until_it_is_refreshed(
    world: ManagerWorld,
) -> None:
    world.sql(DAILY)
    world.work()
    seen = []
    for _ in range(3):
        world.pass_days(1)
        seen.append(world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["health"])
    world.tick(world.latest_point())
    world.work()

    seen.append(world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["health"])

    assert seen == ["OK", "LATE", "LATE", "OK"]


def test_show_late_lists_the_tables_that_are_late_and_no_others(world: ManagerWorld) -> None:
    for name in ("closed", "often", "totals"):
        world.sql(WHOLE_TABLE.replace("totals", name))
    world.sql(DAILY)
    world.work()
    world.sql("ALTER MATERIALIZED TABLE closed SUSPEND")
    before = world.show("SHOW MATERIALIZED TABLES LATE")

    world.clock.advance(timedelta(hours=3))
    world.tick(world.latest_point("often"), "often")
    world.work()

    assert before == []
    assert names(world) == ["closed", "daily", "often", "totals"]
    assert [row["materialized table"] for row in world.show("SHOW MATERIALIZED TABLES LATE")] == ["totals"]
    assert world.show("SHOW MATERIALIZED TABLES LIKE 'd%' EXTENDED LATE") == []


def test_a_suspended_table_is_not_late(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    world.pass_days(9)

    suspended = world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["health"]
    world.sql("ALTER MATERIALIZED TABLE daily RESUME")

    assert suspended == "SUSPENDED"
    assert world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["health"] == "OK"


def test_describe_of_a_table_whose_storage_is_gone_says_so_and_keeps_its_sources(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    del world.engine.storages[world.table().identifier]
    world.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    world.work()

    found = facts(world)

    assert found["storage"] == "missing; ALTER MATERIALIZED TABLE lake.default.daily RESUME recreates it"
    assert str(found["sources"]).startswith("lake.default.orders")


def test_show_tells_how_stale_each_table_is(world: ManagerWorld) -> None:
    world.sql(DAILY)
    (never,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
    world.clock.advance(timedelta(seconds=5))
    world.work()
    ages = []
    for hours in (0, 0.02, 1, 2, 50):
        world.clock.advance(timedelta(hours=hours))
        ages.append(world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["stale for"])

    assert never == {
        "materialized table": "daily",
        "namespace": "lake.default",
        "refresh mode": "FULL",
        "freshness": "INTERVAL '1' DAY",
        "status": "ACTIVATED",
        "last refresh": None,
        "stale for": None,
        "health": "INITIALIZING",
        "last result": None,
        "last error": None,
        "status by": "CREATE",
        "status at": "2026-03-01 12:00:00",
        "as of": None,
        "late by": None,
        "next run": "2026-03-02 00:00:00",
    }
    assert ages == ["0 s", "72 s", "61 min", "3 h", "2 d"]
    assert world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["last refresh"] == "2026-03-01 12:00:05"


def test_a_skipped_refresh_makes_a_table_fresh_and_one_skipped_as_suspended_does_not(
    world: ManagerWorld,
) -> None:
    world.sql(DAILY)
    world.work()
    world.pass_days(1)
    world.tick(world.latest_point())
    world.work()
    fresh = world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["stale for"]
    world.sql("ALTER MATERIALIZED TABLE daily SUSPEND")
    for _ in range(15):
        world.pass_days(1)
        world.tick(world.latest_point())

    (row,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")

    assert fresh == "0 s (only ds=2026-03-01)"
    assert (row["status"], row["last refresh"], row["stale for"]) == (
        "SUSPENDED",
        "2026-03-02 12:00:00",
        "15 d (only ds=2026-03-01)",
    )


def test_show_refreshes_gives_the_ledger_newest_first(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.pass_days(1)
    world.engine.failing["write"] = RuntimeError("no executor")
    world.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 2}])
    world.tick(world.latest_point())
    world.work()

    rows = world.show("SHOW REFRESHES FOR daily EXTENDED")

    assert [(row["kind"], row["status"], row["partitions"], row["error"]) for row in rows] == [
        ("PERIODIC", "FAILED", "ds=2026-03-01", "write failed: no executor"),
        ("INITIAL", "SUCCEEDED", "whole table", None),
    ]
    assert rows[0]["schedule time"] == "2026-03-02 00:00:00"
    assert rows[0]["reason"] == "lake.default.orders changed"
    assert (rows[1]["decision"], rows[1]["rows"], rows[1]["attempt"]) == ("refresh", 1, 1)
    assert list(rows[1])[-4:] == ["rows deleted", "bytes read", "job", "seconds"]
    assert list(rows[1].values())[-7:-2] == ["recompute", 1, None, 0, 1]
    assert list(rows[0].values())[-7:-2] == [None] * 5
    assert [row["job"] for row in rows] == [run.job_id for run in reversed(world.runs("daily"))]
    assert len(world.show("SHOW REFRESHES EXTENDED LIMIT 1")) == 1


def test_show_refreshes_keeps_the_runs_of_a_dropped_table(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    table_id = world.table().table_id
    world.sql("DROP MATERIALIZED TABLE daily")

    (row,) = world.show("SHOW REFRESHES EXTENDED")

    assert row["materialized table"] == f"dropped ({table_id})"


# --------------------------------------------------------------------------------------------------- DESCRIBE


def test_describe_gives_the_columns_of_flink(world: ManagerWorld) -> None:
    world.sql(DAILY)

    assert world.show("DESCRIBE daily") == [
        {
            "name": "ds",
            "type": "STRING",
            "null": True,
            "key": None,
            "extras": "PARTITION KEY",
            "watermark": None,
        },
        {"name": "amount", "type": "INT", "null": True, "key": None, "extras": None, "watermark": None},
    ]


def test_describe_of_a_name_that_is_no_materialized_table_is_left_to_spark(world: ManagerWorld) -> None:
    assert world.sql("DESCRIBE orders").passthrough


def test_describe_extended_tells_status_workflow_sources_and_what_decided(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()

    told = facts(world)

    assert told["identifier"] == "lake.default.daily"
    assert told["status"] == "ACTIVATED, by CREATE at 2026-03-01 12:00:00"
    assert told["schedule"] == "every 1 day in UTC"
    assert told["workflow"] == "ACTIVE in fake"
    assert (
        str(told["last run"])
        == "SUCCEEDED INITIAL whole table at 2026-03-01 12:00:00 (attempt 1, by recompute)"
    )
    assert told["decision"] == "refresh: never refreshed before"
    assert str(told["sources"]).startswith("lake.default.orders (table, version ")
    assert (told["rebuild due"], told["query"]) == ("no", "SELECT * FROM orders")


def test_describe_extended_works_while_scheduler_and_engine_are_away(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.scheduler.failing["describe"] = RuntimeError("503")
    world.engine.away = True

    told = facts(world)

    assert "503" in str(told["workflow"])
    assert "MISSING" not in str(told["workflow"])
    assert "away" in str(told["storage"])


def test_describe_extended_masks_secrets(world: ManagerWorld) -> None:
    world.sql(DAILY.replace("WITH (", "WITH ('write.data.path' = 's3://u:hunter2@h/x', "))
    world.sql(
        "ALTER MATERIALIZED TABLE daily RESUME WITH ('write.snapshot-property.uri' = 'jdbc:x://u:hunter3@h', "
        "'write.snapshot-property.passwd' = 'hunter4')"
    )

    assert "hunter" not in str(facts(world))


def test_describe_extended_names_lost_storage_and_the_way_out(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.engine.storages.clear()

    assert (
        facts(world)["storage"] == "missing; ALTER MATERIALIZED TABLE lake.default.daily RESUME recreates it"
    )


# ---------------------------------------------------------------------------------------------------- EXPLAIN


def test_explain_refresh_tells_what_is_due_and_what_a_refresh_would_write(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.pass_days(2)
    unchanged = explained(world)
    world.engine.commit(ORDERS, [{"ds": "2026-03-02", "amount": 2}])
    changed = explained(world)

    assert unchanged[:4] == [
        "Refresh of lake.default.daily",
        "scope:    ds=2026-03-01, ds=2026-03-02 (2 schedule times are due)",
        "decision: skip: sources unchanged",
        "writes:   nothing",
    ]
    assert changed[2:4] == [
        "decision: refresh: lake.default.orders changed",
        "writes:   ds=2026-03-01, ds=2026-03-02",
    ]


def test_explain_refresh_of_a_partition_explains_that_partition(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()

    assert explained(world, "PARTITION (ds = '2026-01-01')")[1] == "scope:    ds=2026-01-01 (as asked)"
    world.refused(lambda: explained(world, "PARTITION (nope = '1')"), DefinitionInvalid)


def test_explain_refresh_agrees_with_what_the_next_tick_does(world: ManagerWorld) -> None:
    world.sql(DAILY)
    world.work()
    world.pass_days(3)
    world.engine.commit(ORDERS, [{"ds": "2026-03-02", "amount": 2}])
    told = explained(world)

    run = world.tick(world.latest_point())
    world.work()

    done = world.run(run.run_id)
    assert told[1].startswith(f"scope:    {done.scope} ")
    assert told[2] == f"decision: {done.decision}: {done.reason}"


def test_times_are_shown_in_the_zone_of_the_table(world: ManagerWorld) -> None:
    world.context = replace(world.context, properties={"table.local-time-zone": "Asia/Tokyo"})
    world.sql(DAILY)
    world.work()

    assert world.show("SHOW MATERIALIZED TABLES EXTENDED")[0]["last refresh"] == "2026-03-01 21:00:00"
    assert world.show("SHOW REFRESHES FOR daily EXTENDED")[0]["finished at"] == "2026-03-01 21:00:00"


# ---------------------------------------------------------------------------------------- what cannot be read


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[ManagerWorld]:
    """A world on a registry of SQLite with the tables `daily` and `totals`, each with a run."""
    registry = SqlRegistry.open(f"sqlite:///{tmp_path}/registry.db")
    world = ManagerWorld(registry=registry)
    for statement in (DAILY, WHOLE_TABLE):
        world.sql(statement)
    world.work()
    yield world
    registry.close()


def damage(tmp_path: Path, change: str) -> None:
    with closing(sqlite3.connect(tmp_path / "registry.db")) as connection, connection:
        connection.execute(change)


def test_a_table_that_cannot_be_read_says_why_in_its_row_and_hides_no_other(
    stored: ManagerWorld, tmp_path: Path
) -> None:
    damage(tmp_path, "UPDATE materialized_tables SET body = '{\"version\": 7}' WHERE name = 'daily'")

    broken, whole = stored.show("SHOW MATERIALIZED TABLES IN default EXTENDED")

    error = str(broken.pop("last error"))
    assert {name: value for name, value in broken.items() if value is not None} == {
        "materialized table": "daily",
        "namespace": "lake.default",
        "health": "FAILING",
    }
    assert error.startswith("cannot be read: The registry's row of materialized table ")
    assert error.endswith(" has version 7, this release reads version 1; use the release that wrote it.")
    assert (whole["materialized table"], whole["status"], whole["health"]) == ("totals", "ACTIVATED", "OK")
    assert [row["status"] for row in stored.show("SHOW REFRESHES EXTENDED")] == ["SUCCEEDED", "SUCCEEDED"]


@pytest.mark.parametrize("body", ["no json", "{}", '{"version": 1, "scope": 7}'])
def test_a_refresh_that_cannot_be_read_says_why_in_its_row_and_hides_no_other(
    stored: ManagerWorld, tmp_path: Path, body: str
) -> None:
    run_id = stored.show("SHOW REFRESHES FOR daily EXTENDED")[0]["refresh"]
    damage(tmp_path, f"UPDATE runs SET body = '{body}' WHERE run_id = '{run_id}'")

    whole, broken = stored.show("SHOW REFRESHES EXTENDED")

    assert (whole["materialized table"], whole["status"]) == ("lake.default.totals", "SUCCEEDED")
    assert (broken["refresh"], broken["materialized table"]) == (run_id, "lake.default.daily")
    assert str(broken["error"]).startswith("cannot be read: The registry's row of refresh")
    assert [row["status"] for row in stored.show("SHOW MATERIALIZED TABLES EXTENDED")] == [
        "ACTIVATED",
        "ACTIVATED",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "lake.default.daily AS OF tag",
        "lake.default.daily AS OF `it's`",
        "parquet.`/tmp/x`",
        "a b c",
        "'x",
        "",
    ],
)
def test_a_source_with_an_odd_name_hides_no_table(stored: ManagerWorld, tmp_path: Path, source: str) -> None:
    vector = json.dumps([{"name": source, "kind": "table", "version": {"snapshot": "1"}}])
    damage(
        tmp_path,
        f"UPDATE runs SET body = json_set(body, '$.vector', json('{vector.replace(chr(39), chr(39) * 2)}'))",
    )

    assert [row["health"] for row in stored.show("SHOW MATERIALIZED TABLES EXTENDED")] == ["OK", "OK"]
    assert "sources" in facts(stored, "totals")
