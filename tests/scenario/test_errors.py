from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mt_core.errors import CatalogUnsupported, DefinitionInvalid, GatewayError, TableProtected
from mt_core.model.table import Column
from tests.support.gateway.whole import DAILY, NOTHING, WholeGateway, root_cause
from tests.support.gateway.whole import whole_gateway as whole_gateway

EVERY_DAY = "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL"
TABLE = "lake.default.t"


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeGateway]:
    """A gateway shared by requests that change nothing; `daily` is its only table."""
    gateway = WholeGateway(tmp_path_factory.mktemp("refusing"))
    twice = [Column(name="a", type="int"), Column(name="A", type="int")]
    gateway.engine.create_source("lake.default.twice", [{"a": 1}], twice)
    gateway.sql(DAILY)
    gateway.client.session  # noqa: B018  opened before the state is compared
    yield gateway
    gateway.close()


def create(clauses: str, source: str = "orders") -> str:
    return f"CREATE MATERIALIZED TABLE t {clauses} AS SELECT * FROM {source}"


BAD_STATEMENTS = {
    "unknown column": (
        create(f"(ds, nope) {EVERY_DAY}"),
        f"Column nope of {TABLE} is not in its query, which returns ds, amount.",
    ),
    "too few columns": (
        create(f"(ds) {EVERY_DAY}"),
        f"The column list of {TABLE} names 1 column, but its query returns 2; the numbers must match.",
    ),
    "two columns of one name": (
        create(EVERY_DAY, "twice"),
        f"The query of {TABLE} returns two columns of one name (a, A); rename one with AS.",
    ),
    "interval that is not a number": (
        create("FRESHNESS = INTERVAL 'x' DAY"),
        "FRESHNESS: only positive integers are supported, not 'x'; write for example INTERVAL '1' DAY.",
    ),
    "interval of zero": (
        create("FRESHNESS = INTERVAL '0' DAY"),
        "FRESHNESS: only positive integers are supported, not '0'; write for example INTERVAL '1' DAY.",
    ),
    "negative interval": (
        create("FRESHNESS = INTERVAL '-1' DAY"),
        "FRESHNESS: only positive integers are supported, not '-1'; write for example INTERVAL '1' DAY.",
    ),
    "unit of an interval": (
        create("FRESHNESS = INTERVAL '1' MONTH"),
        "FRESHNESS: the unit MONTH is not supported; use one of SECOND, MINUTE, HOUR, DAY, WEEK.",
    ),
    "interval of two units": (
        create("FRESHNESS = INTERVAL '1:30' HOUR TO MINUTE"),
        "FRESHNESS: HOUR TO MINUTE is not supported; use one of SECOND, MINUTE, HOUR, DAY, WEEK.",
    ),
    "interval of more than a century": (
        create("FRESHNESS = INTERVAL '36501' DAY"),
        "FRESHNESS: INTERVAL '36501' DAY is too long; 36500 days is the longest.",
    ),
    "other freshness of zero": (
        "ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '0' DAY",
        "FRESHNESS: only positive integers are supported, not '0'; write for example INTERVAL '1' DAY.",
    ),
    "unknown partition key": (
        create(f"PARTITIONED BY (nope) {EVERY_DAY}"),
        f"PARTITIONED BY (nope): the query of {TABLE} does not return this column; it returns ds, amount.",
    ),
    "formatter on a column that is no partition key": (
        create(f"PARTITIONED BY (ds) WITH ('partition.fields.amount.date-formatter' = 'yyyy') {EVERY_DAY}"),
        f"Option partition.fields.amount.date-formatter: amount is not a partition column of {TABLE}; "
        "its partition columns are ds.",
    ),
    "formatter on a column that is no string": (
        create(
            f"PARTITIONED BY (amount) WITH ('partition.fields.amount.date-formatter' = 'yyyy') {EVERY_DAY}"
        ),
        "Option partition.fields.amount.date-formatter: only string and date partition columns can have a "
        f"date-formatter, but amount of {TABLE} is INT; CAST it to STRING in the query.",
    ),
    "letter of a formatter": (
        create(f"PARTITIONED BY (ds) WITH ('partition.fields.ds.date-formatter' = 'YYYY') {EVERY_DAY}"),
        "partition.fields.ds.date-formatter: the pattern 'YYYY' has the letter Y, which is not supported; "
        "supported are y, M, d, H, m, s, S, and text in 'quotes'.",
    ),
    "name of a materialized table": (
        DAILY,
        (
            "lake.default.daily exists already; choose another name, or use CREATE "
            "OR ALTER for a materialized table."
        ),
    ),
    "name of another table": (
        f"CREATE MATERIALIZED TABLE orders {EVERY_DAY} AS SELECT * FROM orders",
        (
            "lake.default.orders exists already; choose another name, or use CREATE "
            "OR ALTER for a materialized table."
        ),
    ),
    "source that does not exist": (
        create(EVERY_DAY, "nowhere"),
        "table lake.default.nowhere cannot be found (line 1, position 95)",
    ),
    "table that does not exist": (
        "ALTER MATERIALIZED TABLE nope SUSPEND",
        "Materialized table lake.default.nope does not exist; "
        "SHOW MATERIALIZED TABLES IN lake.default lists the existing ones.",
    ),
    "table that is not a materialized one": (
        "ALTER MATERIALIZED TABLE orders REFRESH",
        "lake.default.orders is not a materialized table, so it does not support this statement; "
        "use the statement for tables and views.",
    ),
    "drop of a table that is not a materialized one": (
        "DROP MATERIALIZED TABLE IF EXISTS orders",
        "lake.default.orders is not a materialized table, so it does not support this statement; "
        "use the statement for tables and views.",
    ),
    "partition column that is not one": (
        "ALTER MATERIALIZED TABLE daily REFRESH PARTITION (city = 'Rome')",
        (
            "PARTITION (city = 'Rome'): city is not a partition column of lake.default.daily; "
            "its partition columns are ds."
        ),
    ),
    "resume of a table that is not suspended": (
        "ALTER MATERIALIZED TABLE daily RESUME",
        "Materialized table lake.default.daily has been resumed already: it is ACTIVATED.",
    ),
    "catch-up that is not one": (
        "ALTER MATERIALIZED TABLE daily RESUME WITH ('catch-up' = 'some')",
        "RESUME WITH ('catch-up' = 'some'): use 'all' (the default) or 'none'.",
    ),
    "query that takes columns away": (
        "ALTER MATERIALIZED TABLE daily AS SELECT * FROM twice",
        "Column 1 of the new query of lake.default.daily is a INT, but in the table it is ds STRING; "
        "a new query may only append columns at the end.",
    ),
    "partitioning of a table that is there": (
        f"CREATE OR ALTER MATERIALIZED TABLE daily {EVERY_DAY} AS SELECT * FROM orders",
        "CREATE OR ALTER cannot change the partitioning of lake.default.daily (ds); DROP and CREATE it.",
    ),
    "clause that does not exist": (
        "ALTER MATERIALIZED TABLE daily BREAK",
        'Encountered "BREAK"; expected SUSPEND, RESUME [WITH (…)], REFRESH [PARTITION (…)], SET '
        "FRESHNESS = INTERVAL "
        "'n' unit, SET SCHEDULE CRON '…', SET REFRESH_MODE = FULL | CONTINUOUS, "
        "SET ('key' = 'value', …), RESET ('key', …), "
        "or AS query (line 1, column 32)",
    ),
}


@pytest.mark.parametrize(("statement", "message"), BAD_STATEMENTS.values(), ids=list(BAD_STATEMENTS))
def test_a_statement_that_does_not_fit_is_refused_with_the_way_out(
    refusing: WholeGateway, statement: str, message: str
) -> None:
    before = refusing.state()

    refused = refusing.refused(statement)

    assert refused == message
    assert refusing.state() == before


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("check_catalog", CatalogUnsupported("Catalog lake swaps no metadata; use a JDBC catalog.")),
        ("check_columns", DefinitionInvalid("Column v of lake.default.t has type VARIANT; CAST it.")),
    ],
)
def test_a_catalog_or_a_type_that_cannot_be_stored_is_refused_before_anything_is_made(
    refusing: WholeGateway, step: str, error: Exception
) -> None:
    before = refusing.state()
    refusing.engine.failing[step] = error

    refused = refusing.refused(create(EVERY_DAY))

    assert refused == str(error)
    assert refusing.state() == before


def test_a_create_whose_storage_fails_says_so_and_keeps_nothing(whole: WholeGateway) -> None:
    whole.engine.failing["create_storage"] = OSError("the disk is full")

    refused = whole.refused(DAILY)

    assert refused == (
        "Materialized table lake.default.daily was not created, and nothing was left behind: "
        "create_storage failed: the disk is full"
    )
    assert whole.state() == NOTHING


def test_a_create_whose_first_refresh_fails_keeps_the_table_and_says_what_to_do(whole: WholeGateway) -> None:
    whole.engine.failing["write"] = ZeroDivisionError("division by zero")

    refused = whole.refused(DAILY)

    assert refused == (
        "Materialized table lake.default.daily was created, but its first refresh failed: write failed: "
        "division by zero; correct the sources and ALTER MATERIALIZED TABLE lake.default.daily REFRESH, "
        "or correct the query with ALTER MATERIALIZED TABLE lake.default.daily AS … or CREATE OR ALTER. "
        "Until then, each scheduled refresh tries the whole table again; DROP removes the table."
    )
    whole.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    assert whole.amounts() == [("2026-02-28", 1), ("2026-03-01", 2)]


BAD_REQUESTS = {
    "schedule time that cannot be read": (
        "lake.default.daily",
        {"isPeriodic": True, "scheduleTime": "yesterday"},
        {},
        (400, "REQUEST_INVALID"),
        "RequestInvalid: scheduleTime: 'yesterday' cannot be read; "
        "write it as yyyy-MM-dd HH:mm:ss in the time zone UTC, for example 2026-01-31 00:00:00.",
    ),
    "schedule time that is no date": (
        "lake.default.daily",
        {"isPeriodic": True, "scheduleTime": "2026-02-30 00:00:00"},
        {},
        (400, "REQUEST_INVALID"),
        "RequestInvalid: scheduleTime: '2026-02-30 00:00:00' cannot be read; "
        "write it as yyyy-MM-dd HH:mm:ss in the time zone UTC, for example 2026-01-31 00:00:00.",
    ),
    "no schedule time": (
        "lake.default.daily",
        {"isPeriodic": True},
        {},
        (400, "REQUEST_INVALID"),
        "RequestInvalid: scheduleTime is missing: a periodic refresh of lake.default.daily needs it as "
        "'yyyy-MM-dd HH:mm:ss'.",
    ),
    "partitions of a periodic refresh": (
        "lake.default.daily",
        {"isPeriodic": True, "scheduleTime": "2026-03-02 00:00:00", "staticPartitions": {"ds": "2026-03-01"}},
        {},
        (400, "REQUEST_INVALID"),
        "RequestInvalid: staticPartitions go with isPeriodic = false; "
        "a periodic refresh of lake.default.daily takes its partitions from scheduleTime.",
    ),
    "partition column that is not one": (
        "lake.default.daily",
        {"staticPartitions": {"city": "Rome"}},
        {},
        (400, "DEFINITION_INVALID"),
        "DefinitionInvalid: PARTITION (city = 'Rome'): city is not a partition column of "
        "lake.default.daily; its partition columns are ds.",
    ),
    "name that is not full": (
        "daily",
        {},
        {},
        (400, "REQUEST_INVALID"),
        "RequestInvalid: 'daily' is not a full name; the refresh path needs catalog.database.table, such as "
        "lake.sales.daily.",
    ),
    "table that does not exist": (
        "lake.default.nope",
        {},
        {},
        (404, "TABLE_NOT_FOUND"),
        "TableNotFound: Materialized table lake.default.nope does not exist; "
        "SHOW MATERIALIZED TABLES lists the existing ones.",
    ),
    "table that is not a materialized one": (
        "lake.default.orders",
        {},
        {},
        (404, "TABLE_NOT_FOUND"),
        "TableNotFound: Materialized table lake.default.orders does not exist; "
        "SHOW MATERIALIZED TABLES lists the existing ones.",
    ),
    "table that was dropped": (
        "lake.default.nope",
        {},
        {"Freshtable-Table": "1234"},
        (410, "TABLE_GONE"),
        "TableGone: Materialized table lake.default.nope (1234) was dropped.",
    ),
}


@pytest.mark.parametrize(
    ("identifier", "body", "headers", "answer", "message"), BAD_REQUESTS.values(), ids=list(BAD_REQUESTS)
)
def test_a_refresh_that_does_not_fit_is_refused_before_a_handle_is_given(
    refusing: WholeGateway,
    identifier: str,
    body: dict[str, Any],
    headers: dict[str, str],
    answer: tuple[int, str],
    message: str,
) -> None:
    before = refusing.state()

    refused = refusing.refresh(identifier, body, headers)

    assert (refused.status_code, refused.headers["freshtable-error"]) == answer
    assert root_cause(refused) == message
    assert refusing.state() == before


def test_a_refresh_of_a_table_that_is_still_being_created_is_to_be_tried_again(whole: WholeGateway) -> None:
    whole.engine.failing["create_storage"] = SystemExit()
    whole.client.execute(DAILY)
    whole.wait_until(lambda: not whole.engine.failing)

    refused = whole.refresh("lake.default.daily")

    assert (refused.status_code, refused.headers["freshtable-error"], refused.headers["retry-after"]) == (
        503,
        "TABLE_INITIALIZING",
        "2",
    )
    assert root_cause(refused) == (
        "TableInitializing: Materialized table lake.default.daily is being created (since "
        "12:00:00); try again soon."
    )
    assert "is being created (since 12:00:00); wait for it or DROP it." in whole.refused(
        "ALTER MATERIALIZED TABLE daily SUSPEND"
    )
    assert whole.sql("DROP MATERIALIZED TABLE daily") == [{"result": "OK"}]
    assert whole.state() == NOTHING


def test_an_error_is_answered_as_code_message_and_facts_too(refusing: WholeGateway) -> None:
    with pytest.raises(GatewayError) as unknown:
        refusing.sql("ALTER MATERIALIZED TABLE nope SUSPEND")
    with pytest.raises(GatewayError) as unreadable:
        refusing.sql("ALTER MATERIALIZED\n TABLE daily SUSPENDED")
    with pytest.raises(GatewayError) as key:
        refusing.sql("SET 'table.local-time-zone' = 'Mars'")

    assert (unknown.value.code, unknown.value.facts) == ("TABLE_NOT_FOUND", {"table": "lake.default.nope"})
    assert (unreadable.value.code, unreadable.value.facts["line"]) == ("SQL_SYNTAX", 2)
    assert (key.value.code, key.value.facts) == ("REQUEST_INVALID", {"key": "table.local-time-zone"})


def test_an_error_about_something_that_is_not_there_names_it_in_its_facts(refusing: WholeGateway) -> None:
    wanted = {"Freshtable-Errors": "json"}
    session, other = refusing.client.session, "20ee2ba8-3037-491e-a2ee-180d05966542"

    no_session = refusing.http.get(f"/v3/sessions/{other}", headers=wanted)
    no_operation = refusing.http.get(f"/v3/sessions/{session}/operations/{other}/status", headers=wanted)
    with pytest.raises(GatewayError) as no_job:
        refusing.sql(f"DESCRIBE JOB '{'ab' * 16}'")

    assert no_session.json()["error"]["facts"] == {"session": other}
    assert no_operation.json()["error"]["facts"] == {"operation": other}
    assert no_job.value.facts == {"job": "ab" * 16}


def test_a_protected_table_is_a_fact_of_the_refusal() -> None:
    error = TableProtected("lake.default.daily is a materialized table.", table="lake.default.daily")

    assert (error.table, error.facts) == ("lake.default.daily", {"table": "lake.default.daily"})


@pytest.mark.parametrize("prefix", ["/v1", "/v2", "/v3", "/v4", ""])
@pytest.mark.parametrize(
    ("headers", "fields"), [({}, {"errors"}), ({"Freshtable-Errors": "json"}, {"errors", "error"})]
)
def test_only_clients_that_ask_are_sent_the_facts_since_flinks_read_no_unknown_field(
    refusing: WholeGateway, prefix: str, headers: dict[str, str], fields: set[str]
) -> None:
    answer = refusing.http.get(f"{prefix}/sessions/20ee2ba8-3037-491e-a2ee-180d05966542", headers=headers)

    assert answer.headers["freshtable-error"] == "SESSION_NOT_FOUND"
    assert answer.json().keys() == fields
    assert int(answer.headers["content-length"]) == len(answer.content)
