"""What programs read about tables, refreshes, jobs and sessions under /freshtable/v1."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mt_core.base.access import parse_tokens
from mt_core.base.background import BackgroundLoop
from mt_core.errors import QueryFailed
from mt_core.model.partition import PartitionSpec
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway, root_cause
from tests.support.gateway.whole import DAILY, EVERY_10_S, START, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.slow_registry import SlowRegistry

ROOT = "/freshtable/v1"
JSON = dict[str, Any]


def get(whole: WholeGateway, path: str, **parameters: str) -> JSON:
    answer = whole.http.get(ROOT + path, params=parameters)
    assert answer.status_code == 200, answer.text
    body: JSON = answer.json()
    assert body.pop("version") == 1
    return body


def table(whole: WholeGateway, name: str = "often") -> JSON:
    [found] = [each for each in get(whole, "/tables")["tables"] if each["table"] == name]
    return dict(found)


def at(seconds: float) -> str:
    return f"{START + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def often(whole: WholeGateway) -> WholeGateway:
    """A gateway with the table `often`, which was refreshed once."""
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    return whole


def damage(folder: Path, change: str) -> None:
    with closing(sqlite3.connect(folder / "registry.db")) as connection, connection:
        connection.execute(change)


# --------------------------------------------------------------------------------------------------- tables


def test_an_empty_registry_has_no_tables_no_graph_and_no_jobs(whole: WholeGateway) -> None:
    tables, graph, jobs = get(whole, "/tables"), get(whole, "/graph"), get(whole, "/jobs")

    assert (tables["tables"], tables["next"], tables["read"], tables["total"]) == ([], None, 0, 0)
    assert set(tables["counts"].values()) == {0}
    assert (graph["namespaces"], graph["nodes"], graph["edges"]) == ([], [], [])
    assert jobs == {"jobs": [], "next": None}


def test_a_table_is_shown_as_soon_as_its_statement_has_ended(often: WholeGateway) -> None:
    often.pass_time(seconds=15)

    body = get(often, "/tables")

    [found] = body["tables"]
    assert (body["as_of"], body["read"], body["total"], body["counts"]["OK"]) == (at(15), 1, 1, 1)
    assert (found["name"], found["catalog"], found["namespace"]) == (
        "lake.default.often", "lake", ["default"],
    )  # fmt: skip
    assert (found["mode"], found["status"], found["state"], found["because"]) == (
        "FULL", "ACTIVATED", "OK", "",
    )  # fmt: skip
    assert (found["freshness"], found["freshness_seconds"]) == ("10 seconds", 10)
    assert (found["shows"], found["late_at"], found["late_by"], found["next"]) == (
        at(15),
        at(30),
        None,
        at(20),
    )
    assert found["reads"] == [{"name": "lake.default.orders", "kind": "table"}]
    assert (found["last"]["status"], found["last"]["reason_code"]) == ("SKIPPED", "SOURCES_UNCHANGED")


def test_a_table_whose_refreshes_fail_says_why_and_is_found_by_its_state(often: WholeGateway) -> None:
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    often.pass_time(seconds=10)

    [failing] = get(often, "/tables", state="late,Failing")["tables"]
    fine = get(often, "/tables", state="ok")

    assert (failing["state"], failing["last"]["status"]) == ("FAILING", "FAILED")
    assert failing["because"].startswith("its last refresh failed: ")
    assert (fine["tables"], fine["counts"]["FAILING"]) == ([], 1)


def test_one_table_has_its_definition_too_with_secrets_masked(whole: WholeGateway) -> None:
    whole.sql(
        "CREATE MATERIALIZED TABLE base PARTITIONED BY (ds) "
        "WITH ('write.data.path' = 's3://u:hunter2@h/x', 'write.format.default' = 'orc') "
        "FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM orders"
    )
    whole.wait_quiet()
    whole.sql(EVERY_10_S.format("above", "base"))
    whole.wait_quiet()

    answer = whole.http.get(f"{ROOT}/tables/{table(whole, 'base')['id']}")

    body = answer.json()
    assert "hunter2" not in answer.text
    assert {name: body[name] for name in table(whole, "base")} == table(whole, "base")
    assert body["options"] == {"write.data.path": "s3://u:***@h/x", "write.format.default": "orc"}
    assert (body["query"], body["partition_keys"]) == ("SELECT * FROM orders", ["ds"])
    assert [column["name"] for column in body["columns"]] == ["ds", "amount"]
    assert body["read_by"] == ["lake.default.above"]


def test_a_name_with_quotes_and_other_letters_is_only_text(whole: WholeGateway) -> None:
    name = 'it\'s "ü" <script>``'
    whole.engine.create_source("lake.default.s", [{"ds": "2026-02-28", "amount": 1}])
    whole.sql(
        f"CREATE MATERIALIZED TABLE `{name}` FRESHNESS = INTERVAL '10' SECOND REFRESH_MODE = FULL "
        "AS SELECT * FROM s"
    )
    whole.wait_quiet()

    found = table(whole, name.replace("``", "`"))

    quoted = f"lake.default.`{name}`"
    assert found["name"] == quoted
    assert get(whole, f"/tables/{found['id']}")["name"] == quoted
    assert [each["id"] for each in get(whole, "/tables", q="<SCRIPT>")["tables"]] == [found["id"]]
    assert get(whole, "/graph", of=quoted) == get(whole, "/graph", of=found["id"])
    [run] = get(whole, f"/tables/{found['id']}/refreshes")["refreshes"]
    assert run["table"] == quoted


def test_pages_continue_after_a_table_that_was_dropped_and_leave_out_none_that_stays(
    whole: WholeGateway,
) -> None:
    for name in ("b", "d", "f"):
        whole.sql(EVERY_10_S.format(name, "orders"))
    whole.wait_quiet()

    first = get(whole, "/tables", limit="2")
    whole.sql("DROP MATERIALIZED TABLE d")
    whole.sql(EVERY_10_S.format("a", "orders"))
    whole.sql(EVERY_10_S.format("e", "orders"))
    second = get(whole, "/tables", limit="2", after=first["next"])

    assert [each["table"] for each in first["tables"]] == ["b", "d"]
    assert [each["table"] for each in second["tables"]] == ["e", "f"]
    assert second["next"] is None


def test_who_has_the_answer_is_sent_nothing_until_something_happens(often: WholeGateway) -> None:
    path = f"{ROOT}/tables"
    first = often.http.get(path)
    etag = {"If-None-Match": first.headers["etag"].removeprefix("W/")}

    same = often.http.get(path, headers=etag)
    other_query = often.http.get(path, params={"state": "OK"}, headers=etag)
    often.clock.advance(timedelta(seconds=1))
    a_second_later = often.http.get(path, headers=etag)
    often.sql("ALTER MATERIALIZED TABLE often SUSPEND")
    suspended = often.http.get(path, headers=etag)

    assert first.headers["etag"].startswith('W/"')
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
    assert (other_query.status_code, a_second_later.status_code) == (200, 304)
    assert suspended.json()["tables"][0]["state"] == "SUSPENDED"


def test_a_table_becomes_late_in_the_answer_though_nothing_was_written(often: WholeGateway) -> None:
    often.process.scheduler.close()
    path = f"{ROOT}/tables"
    fresh = often.http.get(path)

    often.clock.advance(timedelta(seconds=25))
    late = often.http.get(path, headers={"If-None-Match": fresh.headers["etag"]})

    assert late.status_code == 200
    [found] = late.json()["tables"]
    assert (found["state"], found["fault"], found["late_by"] > 0) == ("LATE", "schedule", True)
    assert found["because"].startswith("late since 12:00 UTC: no refresh has been requested since 12:00 UTC")


def test_a_table_that_cannot_be_read_hides_no_other(often: WholeGateway, tmp_path: Path) -> None:
    often.sql(DAILY)
    often.wait_quiet()
    broken_id = table(often, "daily")["id"]
    damage(tmp_path, "UPDATE materialized_tables SET body = '{\"version\": 7}' WHERE name = 'daily'")
    damage(tmp_path, "UPDATE materialized_tables SET changed = changed + 1000 WHERE name = 'daily'")

    broken, fine = get(often, "/tables")["tables"]

    assert (broken["id"], broken["table"], broken["state"]) == (broken_id, "daily", "FAILING")
    assert "has version 7" in broken["because"]
    assert (fine["table"], fine["state"]) == ("often", "OK")
    details = get(often, f"/tables/{broken_id}")
    assert (details["because"], details["query"]) == (broken["because"], None)
    assert len(get(often, f"/tables/{broken_id}/refreshes")["refreshes"]) == 1
    curve = often.http.get(f"{ROOT}/tables/{broken_id}/staleness")
    assert (curve.status_code, "has version 7" in root_cause(curve)) == (500, True)


@pytest.fixture
def slow(gateway: Gateway, switch: Any) -> Iterator[SlowRegistry]:
    """The registry of a gateway that is building its overview."""
    registry = SlowRegistry(gateway.clock)
    with registry.being_read(gateway.services) as services:
        switch.app = app_of(services)
        yield registry


def test_while_the_overview_is_built_the_answer_says_how_far_it_is(
    gateway: Gateway, slow: SlowRegistry
) -> None:
    building = gateway.http.get(f"{ROOT}/tables")
    slow.go_on.set()
    # It is answered only once the overview is built.
    gateway.http.get(f"{ROOT}/tables/id-0")
    built = gateway.http.get(f"{ROOT}/tables", headers={"If-None-Match": building.headers["etag"]}).json()

    body = building.json()
    assert (body["read"], body["total"], body["tables"]) == (0, 100, [])
    assert (built["read"], built["total"], len(built["tables"])) == (150, 150, 100)


def test_a_table_is_found_by_its_id_while_the_overview_is_built(gateway: Gateway, slow: SlowRegistry) -> None:
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(gateway.http.get, f"{ROOT}/tables/id-149")
        assert not wait([asked], timeout=0.2).done
        slow.go_on.set()

        assert asked.result().json()["table"] == "t149"


# ------------------------------------------------------------------------------------------------ refreshes


def test_the_refreshes_of_a_table_are_paged_from_the_newest(often: WholeGateway) -> None:
    for _ in range(3):
        often.pass_time(seconds=10)
    path = f"/tables/{table(often)['id']}/refreshes"

    first = get(often, path, limit="3")
    often.pass_time(seconds=10)
    second = get(often, path, limit="3", after=first["next"])

    assert [each["schedule_time"] for each in first["refreshes"]] == [at(30), at(20), at(10)]
    assert [each["kind"] for each in second["refreshes"]] == ["INITIAL"]
    assert second["next"] is None


def test_a_refresh_has_its_reason_its_steps_its_sources_and_its_whole_error(often: WholeGateway) -> None:
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    often.pass_time(seconds=10)
    failed, first = get(often, f"/tables/{table(often)['id']}/refreshes")["refreshes"]

    shown, succeeded = get(often, f"/runs/{failed['id']}"), get(often, f"/runs/{first['id']}")

    assert {name: shown[name] for name in failed} == failed
    assert (shown["status"], shown["reason_code"], shown["error"]) == (
        "FAILED", "SOURCES_CHANGED", often.show("error", name="often")[-1],
    )  # fmt: skip
    assert (succeeded["status"], succeeded["rows"], succeeded["requested_at"]) == ("SUCCEEDED", 2, at(0))
    assert set(succeeded["steps"]) == {"queue", "decide", "write", "publish"}
    [source] = succeeded["sources"]
    assert (source["name"], source["kind"], type(source["version"])) == ("lake.default.orders", "table", str)


def test_a_refresh_that_cannot_be_read_hides_no_other(often: WholeGateway, tmp_path: Path) -> None:
    often.pass_time(seconds=10)
    path = f"/tables/{table(often)['id']}/refreshes"
    newest, _ = get(often, path)["refreshes"]
    damage(tmp_path, f"UPDATE runs SET body = 'no json' WHERE run_id = '{newest['id']}'")

    broken, whole = get(often, path)["refreshes"]

    assert broken.keys() == whole.keys()
    assert (broken["id"], broken["table"]) == (newest["id"], "lake.default.often")
    assert broken["error"].startswith("cannot be read: ")
    assert whole["status"] == "SUCCEEDED"


def test_a_curve_has_the_staleness_and_the_promise_from_an_instant_on(often: WholeGateway) -> None:
    for _ in range(3):
        often.pass_time(seconds=10)
    path = f"/tables/{table(often)['id']}/staleness"

    day, part = get(often, path), get(often, path, points="2", **{"from": at(25)})

    assert (day["from"], day["to"], day["complete"]) == (at(30 - 86_400), at(30), True)
    assert [(each["at"], each["seconds"]) for each in day["points"][:3]] == [
        (at(0), 0),
        (at(10), 10),
        (at(10), 0),
    ]
    assert {each["promise"] for each in day["points"]} == {20}
    assert sum(each["times"] for each in day["marks"]) == 3
    assert (part["points"][0]["at"], part["points"][0]["seconds"]) == (at(25), 5)
    assert day["hours"] == []


# -------------------------------------------------------------------------------------------------- the graph


def test_the_graph_has_what_a_table_reads_and_what_reads_it(whole: WholeGateway) -> None:
    for name, source in (("one", "orders"), ("two", "one"), ("three", "two")):
        whole.sql(EVERY_10_S.format(name, source))
        whole.wait_quiet()

    around_two = get(whole, "/graph", of="lake.default.two", up="1", down="1")
    of_source = get(whole, "/graph", of="lake.default.orders", up="1")

    assert {node["name"]: node["depth"] for node in around_two["nodes"]} == {
        "lake.default.one": 0, "lake.default.two": 1, "lake.default.three": 2,
    }  # fmt: skip
    assert [(edge["reader"], edge["source"]) for edge in around_two["edges"]] == [
        ("lake.default.two", "lake.default.one"),
        ("lake.default.three", "lake.default.two"),
    ]
    assert {node["name"]: (node["kind"], node["state"]) for node in of_source["nodes"]} == {
        "lake.default.orders": ("table", None),
        "lake.default.one": ("materialized table", "OK"),
    }
    assert get(whole, "/graph")["namespaces"][0]["counts"]["OK"] == 3


def test_the_graph_of_namespaces_has_the_edges_between_them(whole: WholeGateway) -> None:
    for name, source in (("one", "orders"), ("web.two", "lake.default.one"), ("three", "one")):
        whole.sql(EVERY_10_S.format(name, source))
        whole.wait_quiet()

    graph = get(whole, "/graph")

    assert [each["name"] for each in graph["namespaces"]] == ["lake.default", "lake.web"]
    assert graph["edges"] == [{"reader": "lake.web", "source": "lake.default"}]
    assert (graph["nodes"], graph["cause"], graph["further"]) == ([], [], 4)


def test_the_graph_leads_from_a_late_table_to_its_cause(whole: WholeGateway) -> None:
    for name, source in (("one", "orders"), ("two", "one")):
        whole.sql(EVERY_10_S.format(name, source))
        whole.wait_quiet()
    whole.sql("ALTER MATERIALIZED TABLE one SUSPEND")
    whole.pass_time(seconds=40)

    graph = get(whole, "/graph", of=table(whole, "two")["id"])

    assert graph["cause"] == ["lake.default.two", "lake.default.one"]
    assert table(whole, "two")["below"] == "lake.default.one"


# ----------------------------------------------------------------------------- jobs, sessions and the gateway


def test_jobs_are_paged_from_the_newest_with_queries_changes_and_refreshes(often: WholeGateway) -> None:
    hold = often.hold_write("slow")
    often.sql("SELECT * FROM often")
    often.clock.advance(timedelta(seconds=1))
    often.statements.answers["INSERT INTO t SELECT 1"] = QueryFailed("No space.", sqlstate="53100")
    often.refused("INSERT INTO t SELECT 1")
    often.clock.advance(timedelta(seconds=1))
    often.client.execute(EVERY_10_S.format("slow", "orders"))
    hold.wait_entered()

    first = get(often, "/jobs", limit="2")
    second = get(often, "/jobs", limit="2", after=first["next"])
    failed = get(often, "/jobs", status="failed,canceled")
    hold.release()
    often.wait_quiet()

    assert [(job["kind"], job["status"]) for job in first["jobs"] + second["jobs"]] == [
        ("REFRESH", "RUNNING"), ("INSERT", "FAILED"), ("SELECT", "FINISHED"),
    ]  # fmt: skip
    assert (first["jobs"][0]["target"], first["jobs"][0]["finished_at"]) == ("lake.default.slow", None)
    assert (failed["jobs"], failed["next"], second["next"]) == ([first["jobs"][1]], None, None)


def test_sessions_are_listed_with_what_they_do_but_without_the_handle_that_gives_access(
    often: WholeGateway,
) -> None:
    properties = {"s3.secret-key": "hunter2", "zone": "Europe/Rome"}
    handle = often.http.post("/v4/sessions", json={"sessionName": "mine", "properties": properties}).json()
    handle = handle["sessionHandle"]
    statement = {"statement": "SELECT * FROM often"}
    often.http.post(f"/v4/sessions/{handle}/statements", json=statement)
    before = often.process.sessions.views()[-1].last_access
    often.clock.advance(timedelta(seconds=3))

    answers = [often.http.get(f"{ROOT}{path}") for path in ("/sessions", "/jobs")]

    session = answers[0].json()["sessions"][-1]
    [job] = answers[1].json()["jobs"]
    assert all(handle not in answer.text and "hunter2" not in answer.text for answer in answers)
    assert (session["name"], session["user"], session["opened_at"]) == ("mine", "", at(0))
    assert session["properties"] == {
        "execution.runtime-mode": "batch",
        "s3.secret-key": "***",
        "zone": "Europe/Rome",
    }
    assert [each["statement"] for each in session["operations"]] == ["SELECT"]
    assert job["session"] == session["id"]
    # To be shown does not keep a session alive.
    assert session["idle_since"] == f"{before:%Y-%m-%dT%H:%M:%SZ}"


def test_the_gateway_says_how_it_fares_while_spark_is_starting(gateway: Gateway, switch: Any) -> None:
    succeeded = BackgroundLoop("upkeep", lambda: None, clock=gateway.clock, every=timedelta(seconds=30))
    failed = BackgroundLoop("hooks", lambda: 1 / 0, clock=gateway.clock)
    for loop in (succeeded, failed, failed):
        loop.attempt()
    loops = [succeeded.state, failed.state]
    switch.app = app_of(
        replace(
            gateway.services,
            engine_trouble=lambda: "Spark is starting.",
            scheduler_trouble=lambda: None,
            facts=replace(gateway.services.facts, loops=lambda: loops),
        )
    )
    now = f"{gateway.clock.now():%Y-%m-%dT%H:%M:%SZ}"

    body = gateway.http.get(f"{ROOT}/gateway").json()

    assert body["spark"] == {"state": "TROUBLE", "trouble": "Spark is starting.", "note": ""}
    assert body["scheduler"] == {"state": "UNKNOWN", "trouble": ""}
    assert (body["release"], body["as_of"]) == (gateway.services.info.version, now)
    assert body["refreshes"] == {"running": 0, "most_running": 64, "queued": 0}
    assert body["loops"] == [
        {"name": "upkeep", "every": 30, "succeeded_at": now, "failures": 0},
        {"name": "hooks", "every": 0, "succeeded_at": None, "failures": 2},
    ]
    assert gateway.http.get(f"{ROOT}/tables").status_code == 200


def test_running_and_queued_refreshes_are_counted(often: WholeGateway) -> None:
    hold = often.hold_write("often")
    often.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    often.refresh("lake.default.often")
    hold.wait_entered()
    often.refresh("lake.default.often", {"executionConfig": {"spark.sql.shuffle.partitions": "3"}})

    body = get(often, "/gateway")
    hold.release()
    often.wait_quiet()

    assert body["refreshes"] == {"running": 1, "most_running": 3, "queued": 1}


# ------------------------------------------------------------------------------------------------- what holds


def test_no_answer_waits_for_a_transaction(often: WholeGateway) -> None:
    table_id = table(often)["id"]
    paths = ["/tables", f"/tables/{table_id}", f"/tables/{table_id}/refreshes", "/graph", "/jobs", "/gateway"]
    paths += [f"/tables/{table_id}/staleness", f"/runs/{table(often)['last']['id']}", "/sessions"]
    entered, leave = threading.Event(), threading.Event()

    def hold_turn() -> None:
        with often.process.registry.transaction():
            entered.set()
            leave.wait(60)

    holder = threading.Thread(target=hold_turn)
    holder.start()
    entered.wait(60)
    try:
        statuses = {path: often.http.get(ROOT + path, timeout=30).status_code for path in paths}
    finally:
        leave.set()
        holder.join()

    assert set(statuses.values()) == {200}, statuses


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/tables/nope", "TABLE_NOT_FOUND", "GET /freshtable/v1/tables lists all with their ids"),
        ("/tables/nope/refreshes", "TABLE_NOT_FOUND", "Materialized table nope does not exist"),
        ("/tables/nope/staleness", "TABLE_NOT_FOUND", "Materialized table nope does not exist"),
        ("/runs/nope", "OPERATION_NOT_FOUND", "Refresh nope is not in the ledger"),
        ("/graph?of=nope", "TABLE_NOT_FOUND", "nope is neither a materialized table nor read by one"),
        ("/graph?of=a'b.", "TABLE_NOT_FOUND", "a'b. is neither"),
    ],
)
def test_what_does_not_exist_is_404_and_the_error_says_how_to_find_it(
    whole: WholeGateway, path: str, code: str, message: str
) -> None:
    answer = whole.http.get(ROOT + path)

    assert (answer.status_code, answer.headers["freshtable-error"]) == (404, code)
    assert message in root_cause(answer)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/tables?stat=late", "stat is not a parameter of /freshtable/v1/tables; its parameters are state, "),
        ("/tables?limit=1&limit=2", "limit is given more than once"),
        ("/tables?limit=1000", "limit must be a whole number from 1 to 500, not '1000'"),
        ("/jobs?status=lost", "status must be CREATED, RUNNING, "),
        ("/jobs?after=x", "after must be `next` of an earlier answer to the same request"),
        ("/jobs?after=WyJqb2JzIiwieCIsInkiXQ", "after must be `next` of an earlier answer"),
        ("/graph?up=-1", "up must be a whole number from 0 to 100, not '-1'"),
        ("/sessions?limit=1", "limit is not a parameter of /freshtable/v1/sessions; it has none"),
        ("/tables/{id}/staleness?points=1", "points must be a whole number from 2 to 2000, not '1'"),
        ("/tables/{id}/staleness?from=yesterday", "from must be an instant such as 2026-03-01T12:00:00Z"),
        (
            "/tables/{id}/staleness?from=2030-01-01",
            "from must be an instant before now, 2026-03-01T12:00:00Z",
        ),
        ("/tables/{id}/staleness?from=0001-01-01T00:00:00%2B23:00", "from must be an instant such as"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_400_and_named(
    often: WholeGateway, path: str, message: str
) -> None:
    answer = often.http.get(ROOT + path.format(id=table(often)["id"]))

    assert (answer.status_code, answer.headers["freshtable-error"]) == (400, "REQUEST_INVALID")
    assert message in answer.json()["errors"][0]


@pytest.mark.parametrize(
    "path", ["/tables", "/v4/tables", "/v3/graph", "/freshtable", "/freshtable/v1", "/freshtable/v2/tables"]
)
def test_the_paths_of_flink_have_no_facts(gateway: Gateway, path: str) -> None:
    answer = gateway.http.get(path)

    assert (answer.status_code, answer.json()["errors"]) == (404, [f"Not found: {path}"])


def test_a_reader_sees_the_sessions_of_others_but_cannot_use_them(gateway: Gateway, switch: Any) -> None:
    tokens = parse_tokens("anna:sql:s,ops:read:r,airflow:refresh:f")
    switch.app = app_of(replace(gateway.services, tokens=tokens))
    anna, ops, airflow = ({"Authorization": f"Bearer {secret}"} for secret in "srf")
    handle = gateway.http.post("/v4/sessions", headers=anna).json()["sessionHandle"]

    seen = gateway.http.get(f"{ROOT}/sessions", headers=ops)
    refused = gateway.http.get(f"{ROOT}/sessions", headers=airflow)

    [session] = seen.json()["sessions"]
    assert (session["user"], handle in seen.text, refused.status_code) == ("anna", False, 403)
    used = gateway.http.get(f"/v4/sessions/{session['id']}", headers=anna)
    assert used.status_code == 400
