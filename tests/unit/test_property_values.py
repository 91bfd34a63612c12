from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from mt_core.errors import RequestInvalid
from mt_core.sessions.properties.flink_properties import WITHOUT_EFFECT
from mt_core.sessions.properties.property_values import (
    ACTING,
    check_property,
    check_set,
    session_zone,
)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("execution.timeout", "soon", "a duration such as 30 min"),
        ("execution.runtime-mode", "AUTOMATIC", "batch or streaming"),
        ("table.dml-sync", "yes", "true or false"),
        ("table.plan.force-recompile", "always", "true or false"),
        ("table.plan.compile.catalog-objects", "ALL_ENFORCED", "all or schema or identifier"),
        ("table.plan.restore.catalog-objects", "SCHEMA", "all or all_enforced or identifier"),
        (
            "table.local-time-zone",
            "Mars/Base",
            "an IANA name such as Europe/Berlin, or an offset such as GMT+08:00",
        ),
        ("table.local-time-zone", "GMT+19", "an IANA name"),
        ("table.local-time-zone", "", "an IANA name"),
        (
            "table.exec.state.ttl",
            "banana",
            "a duration such as 30 min, 10 s or 500 ms, at least 1 ms, or 0 for ever",
        ),
        (
            "table.exec.state.ttl",
            "-1 h",
            "a duration such as 30 min, 10 s or 500 ms, at least 1 ms, or 0 for ever",
        ),
        (
            "table.exec.state.ttl",
            "10 µs",
            "a duration such as 30 min, 10 s or 500 ms, at least 1 ms, or 0 for ever",
        ),
        ("table.exec.sink.upsert-materialize", "always", "auto, none, force"),
        ("materialized-table.refresh-mode.freshness-threshold", "-1 s", "a duration"),
        ("materialized-table.default-freshness.full", "500 ms", "at least 1 s"),
    ],
)
def test_a_value_that_cannot_be_right_is_refused_with_what_is_expected(
    key: str, value: str, expected: str
) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        check_property(key, value)

    assert str(refusal.value).startswith(f"{key}: '{value}' (the session) cannot be used; expected ")
    assert expected in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.timeout", "10 s"),
        ("execution.timeout", ""),
        ("execution.runtime-mode", "STREAMING"),
        ("table.dml-sync", "true"),
        ("table.local-time-zone", "Europe/Berlin"),
        ("table.local-time-zone", "GMT-03:00"),
        # Clients open sessions with their whole configuration: what only the gateway understands,
        # or nobody, comes along.
        ("table.exec.source.idle-timeout", "banana"),
        ("table.exec.state.tll", "1 h"),
        ("table.exec.state.ttl", "0"),
        ("table.exec.state.ttl", ""),
        ("sql-gateway.endpoint.rest.port", "8083-8090"),
        ("materialized-table.refresh.max-concurrent", "many"),
        ("table.exec.mini-batch.size", "many"),
        ("any", "thing"),
    ],
)
def test_a_right_value_and_any_value_of_another_key_is_accepted(key: str, value: str) -> None:
    check_property(key, value)


@pytest.mark.parametrize(
    ("name", "hours"), [("Asia/Kolkata", 5.5), ("+05:30", 5.5), ("UTC-3", -3), ("GMT+0800", 8), ("Z", 0)]
)
def test_a_session_zone_is_a_name_or_an_offset(name: str, hours: float) -> None:
    assert datetime(2026, 1, 1, tzinfo=session_zone(name)).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("table.exec.source.idle-timeout", "banana", "a duration such as 30 min, 10 s or 500 ms"),
        ("table.exec.source.idle-timeout", "-1 h", "a duration such as 30 min, 10 s or 500 ms"),
        ("table.exec.mini-batch.enabled", "on", "true or false"),
        ("table.exec.mini-batch.size", "many", "a whole number"),
        ("parallelism.default", "1.5", "a whole number"),
        ("table.exec.spill-compression.block-size", "64 qb", "a size such as 64 mb"),
        ("table.optimizer.agg-phase-strategy", "three_phase", "auto or one_phase or two_phase"),
        ("sql-client.execution.result-mode", "tableaux", "table or changelog or tableau"),
        # They would change rows in Flink, and would not here.
        ("table.sql-dialect", "hive", "default"),
        ("table.exec.sort.default-limit", "10", "-1"),
        ("table.exec.sink.not-null-enforcer", "DROP", "error"),
    ],
)
def test_set_refuses_an_impossible_value_of_a_property_of_flink(key: str, value: str, expected: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        check_set(key, value)

    assert str(refusal.value) == f"{key}: '{value}' (the session) cannot be used; expected {expected}."


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("table.exec.state.tll", "table.exec.state.ttl"),
        ("table.exec.state_ttl", "table.exec.state.ttl"),
        ("Table.Exec.State.TTL", "table.exec.state.ttl"),
        ("table.dml-snyc", "table.dml-sync"),
        ("table.local-timezone", "table.local-time-zone"),
        ("execution.runtime-mod", "execution.runtime-mode"),
        ("materialized-table.freshness-threshold", "materialized-table.refresh-mode.freshness-threshold"),
        ("materialised-table.default-freshness.full", "materialized-table.default-freshness.full"),
        ("sql-gateway.session.idletimeout", "sql-gateway.session.idle-timeout"),
        ("workflow-scheduler.typ", "workflow-scheduler.type"),
    ],
)
def test_set_of_a_misspelt_property_names_the_right_one(key: str, near: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        check_set(key, "1")

    assert str(refusal.value) == f"There is no property {key}; did you mean {near}?"


def test_set_of_an_unknown_property_of_the_gateway_is_refused() -> None:
    with pytest.raises(
        RequestInvalid, match=r"There is no property freshtable\.of-one-s-own\.key; docs/settings\.md lists"
    ):
        check_set("freshtable.of-one-s-own.key", "1")


@pytest.mark.parametrize(
    "key",
    [
        "sql-gateway.session.idle-timeout",
        "materialized-table.refresh.max-concurrent",
        "workflow-scheduler.type",
        "workflow-scheduler.airflow.endpoint",
    ],
)
def test_set_of_a_setting_of_the_whole_gateway_is_refused_as_it_would_change_nothing(key: str) -> None:
    with pytest.raises(
        RequestInvalid, match=f"{key} is a setting of the whole gateway, not of a session; set it when"
    ):
        check_set(key, "10")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("table.exec.state.ttl", "1 h"),
        ("table.exec.state.ttl", "3600000"),
        ("execution.buffer-timeout.interval", "50 µs"),
        ("table.exec.sink.upsert-materialize", "NONE"),
        ("table.sql-dialect", "DEFAULT"),
        ("sql-client.execution.result-mode", "TABLEAU"),
        ("pipeline.name", "what I like"),
        ("execution.runtime-mode", "BATCH"),
        ("execution.runtime-mode", "Streaming"),
        ("materialized-table.refresh-mode.freshness-threshold", "10 s"),
        # Keys of Flink that are not in the table, of Spark, and of one's own.
        ("table.exec.async-vector-search.timeout", "1 min"),
        ("table.exec.hive.infer-source-parallelism", "true"),
        ("taskmanager.numberOfTaskSlots", "2"),
        ("spark.sql.shuffle.partitions", "7"),
        ("my.key", "mine"),
        ("a", "1"),
    ],
)
def test_set_takes_right_values_and_any_value_of_another_key(key: str, value: str) -> None:
    check_set(key, value)


def test_no_property_that_acts_is_listed_as_without_effect() -> None:
    assert not ACTING & WITHOUT_EFFECT.keys()


@pytest.mark.parametrize("key", sorted({*WITHOUT_EFFECT, *ACTING}))
def test_no_known_property_is_taken_for_a_misspelt_one(key: str) -> None:
    with suppress(RequestInvalid):
        check_set(key, "x")
        return
    with pytest.raises(RequestInvalid, match="cannot be used; expected"):
        check_set(key, "x")
