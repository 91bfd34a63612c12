from __future__ import annotations

from mt_core.client.http import GatewayClient, Refresh
from tests.support.gateway.whole import DAILY, WholeGateway, root_cause
from tests.support.gateway.whole import whole_gateway as whole_gateway

ORDERS = "lake.default.orders"
DAILY_NAME = "lake.default.daily"
TICK = {"isPeriodic": True, "scheduleTime": "2026-03-01 00:00:00"}
KEYED = {"Idempotency-Key": "midnight of March 1st"}


def test_a_request_that_is_repeated_attaches_to_its_run_before_and_after_the_run_has_ended(
    whole: WholeGateway,
) -> None:
    whole.sql(DAILY)
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 7}])
    hold = whole.hold_write("daily")
    first = whole.refresh(DAILY_NAME, TICK, KEYED).json()
    hold.wait_entered()
    while_running = whole.refresh(DAILY_NAME, TICK, KEYED).json()
    hold.release()
    whole.wait_quiet()

    after_the_end = whole.refresh(DAILY_NAME, TICK, KEYED).json()

    assert first == while_running == after_the_end
    assert whole.show("refresh", "kind", "status")[1:] == [
        (first["operationHandle"], "PERIODIC", "SUCCEEDED")
    ]
    assert whole.published(first["operationHandle"]) == 1


def test_a_repeated_request_still_attaches_after_a_restart(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    first = whole.refresh(DAILY_NAME, {}, KEYED).json()
    whole.wait_quiet()

    whole.restart()

    assert whole.refresh(DAILY_NAME, {}, KEYED).json() == first
    assert whole.show("kind") == ["INITIAL", "MANUAL"]


def test_a_request_whose_run_failed_is_tried_again_as_a_new_run(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.failing["write"] = ZeroDivisionError("division by zero")
    failed = whole.refresh(DAILY_NAME, {}, KEYED).json()["operationHandle"]
    whole.wait_quiet()

    again = whole.refresh(DAILY_NAME, {}, KEYED).json()["operationHandle"]
    whole.wait_quiet()

    assert whole.show("refresh", "status")[1:] == [(failed, "FAILED"), (again, "SUCCEEDED")]


def test_a_handle_resolves_under_another_session_also_when_the_first_is_closed(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    handle = whole.client.refresh(Refresh(identifier=DAILY_NAME))
    own = whole.page(handle)
    whole.client.close_session()

    with GatewayClient(whole.process.server.url) as other:
        assert other.status(handle) == "FINISHED"
        assert next(iter(other.pages(handle))) == own
        other.close_operation(handle)
        assert other.status(handle) == "FINISHED"


def test_a_client_reads_its_refresh_in_the_session_that_it_has_then(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    handle = whole.client.refresh(Refresh(identifier=DAILY_NAME))
    whole.wait_quiet()
    whole.client.close_session()

    assert whole.client.status(handle) == "FINISHED"


def test_the_result_is_one_row_of_job_id_and_cluster_with_what_the_run_did(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    handle = whole.client.refresh(Refresh(identifier=DAILY_NAME, static_partitions={"ds": "2026-03-01"}))

    page = whole.page(handle)

    [[job_id, cluster, partitions, rows]] = page.rows
    [snapshot] = whole.show("snapshot")[1:]
    assert [column.name for column in page.columns] == ["job id", "cluster info", "partitions", "rows"]
    assert (len(job_id), cluster) == (32, {"execution.target": "fake"})
    assert (partitions, rows) == ("ds=2026-03-01", 1)
    assert page.run == {
        "decision": "refresh",
        "reason": "requested manually",
        "rows": 1,
        "scheduleTime": None,
        "partitions": [{"ds": "2026-03-01"}],
        "attempt": 1,
        "runId": handle,
        "snapshot": snapshot,
    }


def test_a_refresh_under_way_can_be_cancelled_and_leaves_the_old_rows(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    before = whole.amounts()
    whole.engine.commit(ORDERS, [{"ds": "2026-03-01", "amount": 7}])
    hold = whole.hold_write("daily")
    handle = whole.client.refresh(Refresh(identifier=DAILY_NAME))
    hold.wait_entered()

    whole.client.cancel(handle)
    hold.release()
    whole.wait_quiet()

    assert whole.client.status(handle) == "CANCELED"
    assert whole.show("status", "reason")[1:] == [("CANCELED", "cancelled by its requesters")]
    assert "is CANCELED: it has no result to fetch" in whole.error_of(lambda: whole.rows(handle))
    assert (whole.amounts(), whole.branches()) == (before, [])
    assert "cannot become CANCELED" in whole.error_of(lambda: whole.client.cancel(handle))


def test_a_refresh_that_waits_is_cancelled_at_once(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.away = True
    handle = whole.client.refresh(Refresh(identifier=DAILY_NAME))

    whole.client.cancel(handle)

    assert whole.client.status(handle) == "CANCELED"
    whole.engine.away = False
    whole.wait_quiet()
    assert whole.show("status", "attempt")[1:] == [("CANCELED", 1)]


def test_cancelling_one_of_two_requests_that_share_a_run_keeps_the_run(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.away = True
    host, covered = (whole.client.refresh(Refresh(identifier=DAILY_NAME)) for _ in range(2))
    whole.client.cancel(host)
    whole.engine.away = False

    whole.wait_quiet()

    assert whole.client.status(covered) == "FINISHED"
    assert whole.published(host) == 1


def test_cancelling_the_statement_that_waits_for_a_refresh_cancels_the_refresh(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    hold = whole.hold_write("daily")
    statement = whole.client.execute("ALTER MATERIALIZED TABLE daily REFRESH")
    hold.wait_entered()

    whole.client.cancel(statement)
    hold.release()
    whole.wait_quiet()

    assert whole.client.status(statement) == "CANCELED"
    assert whole.show("kind", "status")[1:] == [("MANUAL", "CANCELED")]


def test_a_failed_refresh_shows_the_error_of_its_query(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.failing["write"] = ZeroDivisionError("division by zero")
    handle = whole.client.refresh(Refresh(identifier=DAILY_NAME))

    error = whole.error_of(lambda: whole.rows(handle))

    assert error == f"Refresh {handle} failed: write failed: division by zero"
    assert whole.client.status(handle) == "ERROR"
    answer = whole.http.get(f"/v3/sessions/{whole.client.session}/operations/{handle}/result/0")
    assert (answer.status_code, answer.headers["freshtable-error"]) == (500, "REFRESH_FAILED")
    assert root_cause(answer).endswith("division by zero")


def test_the_statement_that_waits_for_a_failed_refresh_fails_with_the_same_error(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.engine.failing["write"] = ZeroDivisionError("division by zero")

    refused = whole.refused("ALTER MATERIALIZED TABLE daily REFRESH")

    assert (
        refused
        == "The refresh of materialized table lake.default.daily failed: write failed: division by zero"
    )
