from __future__ import annotations

import asyncio
import re
import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.utils.types import DagRunType
from stub_gateway import Answer, StubGateway, refusal, refusal_with_facts

from freshtable_airflow.errors import GatewayUnavailable, RefreshFailed
from freshtable_airflow.operator import RefreshMaterializedTableOperator, RefreshWorkflowOperator
from freshtable_airflow.trigger import RefreshTrigger

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
TICK = datetime(2026, 11, 20, 23, tzinfo=timezone.utc)
STARTED = datetime(2026, 11, 20, 23, 0, 1, tzinfo=timezone.utc)
RESULT = {
    "decision": "refresh",
    "reason": "lake.sales.orders changed",
    "partitions": "partition ds=2026-11-19",
    "rows": 42,
    "snapshot": "7171",
}


class Outlets(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        self[key] = SimpleNamespace(extra={})
        return self[key]


def context(*, attempt: int = 1, cleared: int = 0, **run: Any) -> Any:
    pushed: dict[str, Any] = {}
    task_instance = SimpleNamespace(
        dag_id="mt__lake.sales.daily",
        run_id="scheduled__2026-11-20T23:00:00+00:00",
        task_id="refresh",
        map_index=-1,
        try_number=attempt,
        pushed=pushed,
        xcom_push=pushed.__setitem__,
    )
    facts = {
        "data_interval_end": TICK,
        "run_after": TICK,
        "start_date": STARTED,
        "clear_number": cleared,
        **run,
    }
    return {"ti": task_instance, "dag_run": SimpleNamespace(**facts), "outlet_events": Outlets()}


def operator(**changes: Any) -> RefreshMaterializedTableOperator:
    facts = {
        "table": "lake.sales.daily",
        "workflow_id": UUID,
        "zone": "Europe/Berlin",
        "poll_interval_s": 0.01,
        "settle_s": 0,
    }
    return RefreshMaterializedTableOperator(task_id="refresh", **{**facts, **changes})


def deferred(task: RefreshMaterializedTableOperator, around: Any) -> RefreshTrigger:
    with pytest.raises(TaskDeferred) as raised:
        task.execute(around)
    path, kwargs = raised.value.trigger.serialize()
    assert path == "freshtable_airflow.trigger.RefreshTrigger"
    return RefreshTrigger(**kwargs)


def fired(trigger: RefreshTrigger) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return event.payload
        return {}

    return asyncio.run(first())


def test_a_short_refresh_is_waited_for(stub: StubGateway) -> None:
    around = context()

    result = operator(outlets=[Asset(name="lake.sales.daily", uri="freshtable://lake/sales/daily")]).execute(
        around
    )

    (run,) = stub.runs
    assert result == {**RESULT, "run": run.handle}
    assert [each.extra for each in around["outlet_events"].values()] == [result]
    assert stub.sessions == set()


@pytest.mark.parametrize(
    ("details_url", "before"),
    [
        (f"http://gateway/ui/tables/{UUID}", f"http://gateway/ui/tables/{UUID}?run="),
        # Of a gateway of an earlier release, or without its page.
        (f"http://gateway/v3/workflows/airflow/{UUID}", f"http://gateway/v3/workflows/airflow/{UUID}?run="),
        ("https://gateway/ui/?table=daily", "https://gateway/ui/?table=daily&run="),
    ],
)
def test_the_link_of_a_task_is_its_refresh_on_the_page_of_the_table(
    stub: StubGateway, details_url: str, before: str
) -> None:
    around = context()

    operator(details_url=details_url).execute(around)

    (run,) = stub.runs
    assert around["ti"].pushed["freshtable_run_url"] == f"{before}{run.handle}"


def test_a_task_that_knows_no_page_of_its_table_links_to_the_page_of_the_refresh(stub: StubGateway) -> None:
    around = context()

    operator().execute(around)

    (run,) = stub.runs
    assert around["ti"].pushed["freshtable_run_url"] == f"{stub.url}/ui/runs/{run.handle}"


def test_the_gateway_is_asked_with_key_table_attempt_and_the_tick_in_the_tables_zone(
    stub: StubGateway,
) -> None:
    operator(init_config={"a": "b"}, execution_config={"c": "d"}, dynamic_options={"e": "f"}).execute(
        context(attempt=2)
    )

    (opened,) = stub.asked("POST", "/sessions")
    (asked,) = stub.asked("POST", "/refresh")
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert opened.body == {"sessionName": "airflow", "properties": {"a": "b"}}
    assert asked.path.endswith("/materialized-tables/lake.sales.daily/refresh")
    assert asked.body == {
        "isPeriodic": True,
        "scheduleTime": "2026-11-21 00:00:00",
        "dynamicOptions": {"e": "f"},
        "staticPartitions": {},
        "executionConfig": {"c": "d"},
    }
    assert headers["freshtable-table"] == UUID
    assert headers["freshtable-attempt"] == "2"
    assert headers["idempotency-key"] == (
        f"{UUID}/mt__lake.sales.daily/scheduled__2026-11-20T23:00:00+00:00/refresh/-1/0/2026-11-20 "
        "23:00:01+00:00"
    )


def test_a_run_without_an_interval_refreshes_for_the_moment_it_was_asked_for(stub: StubGateway) -> None:
    moment = datetime(2026, 7, 1, 10, 0, 0, 123456, tzinfo=timezone.utc)

    operator().execute(context(data_interval_end=None, run_after=moment))

    assert stub.runs[0].body["scheduleTime"] == "2026-07-01 12:00:00"


def test_a_teams_own_task_names_partitions_and_knows_no_table_id(stub: StubGateway) -> None:
    operator(workflow_id="", partitions={"ds": "2026-11-01"}).execute(context())

    (asked,) = stub.asked("POST", "/refresh")
    assert asked.body["isPeriodic"] is False
    assert asked.body["staticPartitions"] == {"ds": "2026-11-01"}
    assert asked.body["scheduleTime"] is None
    assert "freshtable-table" not in {name.lower() for name in asked.headers}
    assert stub.runs[0].key.startswith("lake.sales.daily/mt__lake.sales.daily/")


def test_a_retry_finds_the_run_and_a_cleared_task_begins_another(stub: StubGateway) -> None:
    operator().execute(context())

    operator().execute(context(attempt=2))
    operator().execute(context(attempt=3, cleared=1))

    assert [run.attempt for run in stub.runs] == [2, 3]


def test_a_long_refresh_is_handed_to_the_trigger_and_finished_by_another_process(stub: StubGateway) -> None:
    stub.looks = 5
    event = fired(deferred(operator(grace_s=0), context()))

    result = operator(grace_s=0).execute_complete(context(), event)

    assert event["end"] == "FINISHED"
    assert result == {**RESULT, "run": stub.runs[0].handle}
    assert stub.sessions == set()


def test_a_task_is_not_resumed_before_airflow_knows_that_it_is_deferred(stub: StubGateway) -> None:
    began = time.time()
    trigger = deferred(operator(grace_s=0, settle_s=0.5), context())

    event = fired(trigger)

    assert event["end"] == "FINISHED"
    assert time.time() >= trigger.terms.not_before >= began + 0.5


def test_the_log_has_the_progress_of_the_job_and_what_it_came_to(stub: StubGateway, caplog: Any) -> None:
    stub.looks = 2
    caplog.set_level("INFO")
    told: list[str] = []
    trigger = deferred(operator(grace_s=0), context())
    trigger._log_progress = told.append
    event = fired(trigger)

    operator().execute_complete(context(), event)

    assert told == ["RUNNING, 2 of 200 Spark tasks, stage 1 of 2", "FINISHED"]


def test_a_session_that_the_gateway_forgot_is_opened_anew(stub: StubGateway) -> None:
    trigger = deferred(operator(grace_s=0, init_config={"a": "b"}), context())
    stub.sessions.clear()

    event = fired(trigger)

    assert event["end"] == "FINISHED"
    assert stub.asked("POST", "/sessions")[-1].body["properties"] == {"a": "b"}
    assert event["run"]["session"] in stub.sessions


def test_a_gateway_that_is_away_for_a_while_is_waited_for(stub: StubGateway) -> None:
    trigger = deferred(operator(grace_s=0), context())
    stub.down = True
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        stub.down = False

    trigger._log_progress = tell
    event = fired(trigger)

    assert event["end"] == "FINISHED"
    assert "The gateway is starting." in told[0]


def test_a_gateway_that_stays_away_fails_the_try_and_the_next_finds_the_run(stub: StubGateway) -> None:
    trigger = deferred(operator(grace_s=0, patience_s=0), context())
    stub.down = True
    event = fired(trigger)
    stub.down = False

    with pytest.raises(GatewayUnavailable, match="a retry resumes it"):
        operator().execute_complete(context(), event)
    operator().execute(context(attempt=2))

    assert len(stub.runs) == 1


def test_a_failed_refresh_fails_the_try_with_the_gateways_reason(stub: StubGateway) -> None:
    stub.looks = None
    trigger = deferred(operator(grace_s=0), context())
    stub.end(stub.runs[0], "ERROR", "Division by zero in column x.")
    event = fired(trigger)

    with pytest.raises(
        RefreshFailed, match=r"The refresh of lake\.sales\.daily failed: Division by zero in column x\."
    ):
        operator().execute_complete(context(), event)

    assert stub.sessions == set()


def test_a_refresh_whose_query_is_broken_is_not_tried_again(stub: StubGateway) -> None:
    stub.looks, stub.failure = None, "QUERY_BROKEN"
    trigger = deferred(operator(grace_s=0), context())
    stub.end(stub.runs[0], "ERROR", "[UNRESOLVED_COLUMN] amont")

    with pytest.raises(
        AirflowFailException, match=r"\[UNRESOLVED_COLUMN\] amont Another attempt would fail in the same way"
    ):
        operator().execute_complete(context(), fired(trigger))

    assert stub.sessions == set()


def test_a_skipped_refresh_is_no_event_of_the_asset(stub: StubGateway) -> None:
    stub.decision, around = "skip", context()
    task = operator(outlets=[Asset(name="lake.sales.daily", uri="freshtable://lake/sales/daily")])

    result = task.execute(around)

    assert result["decision"] == "skip"
    assert (task.outlets, around["outlet_events"]) == ([], {})


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ([{"ds": "2026-11-18", "hh": "07"}], "partition ds=2026-11-18/hh=07"),
        ([{"ds": "1"}, {"ds": "2"}], "partitions ds=1, ds=2"),
        ([{"ds": str(day)} for day in range(100)], "ds=19 and 80 more"),
        (None, "the whole table"),
    ],
)
def test_the_log_names_the_schedule_time_and_the_partitions_at_start_and_end(
    stub: StubGateway, capsys: Any, partitions: Any, told: str
) -> None:
    stub.partitions = partitions

    operator().execute(context())

    log = capsys.readouterr().out
    assert "schedule time 2026-11-21 00:00:00 (Europe/Berlin), the period that ends then" in log
    assert re.search(rf"The gateway accepted it as run \S+: .*{re.escape(told)}\.", log)
    assert f"{told}, 42 rows" in log


@pytest.mark.parametrize(
    ("params", "forced"),
    [({"force": True}, True), ({"force": False}, False), ({"force": "yes"}, False), ({}, False)],
)
def test_a_manual_run_can_force_the_refresh(stub: StubGateway, params: dict[str, Any], forced: bool) -> None:
    task = RefreshWorkflowOperator(
        task_id="refresh", table="lake.sales.daily", workflow_id=UUID, poll_interval_s=0.01
    )

    task.execute({**context(), "params": params})

    (asked,) = stub.asked("POST", "/refresh")
    sent = {name.lower(): value for name, value in asked.headers.items()}.get("freshtable-force")
    assert sent == ("true" if forced else None)


@pytest.mark.parametrize("run_type", [*DagRunType, "a_word_of_tomorrow"])
def test_the_gateway_is_told_what_began_the_run(stub: StubGateway, run_type: str) -> None:
    operator().execute(context(run_type=run_type))

    (asked,) = stub.asked("POST", "/refresh")
    sent = {name.lower(): value for name, value in asked.headers.items()}["freshtable-trigger"]
    assert sent == str(getattr(run_type, "value", run_type))


def test_a_run_without_a_type_says_nothing_of_what_began_it(stub: StubGateway) -> None:
    operator().execute(context())

    (asked,) = stub.asked("POST", "/refresh")
    assert "freshtable-trigger" not in {name.lower() for name in asked.headers}


def test_a_teams_own_task_can_force_the_refresh(stub: StubGateway) -> None:
    operator(force=True).execute(context())

    (asked,) = stub.asked("POST", "/refresh")
    assert {name.lower(): value for name, value in asked.headers.items()}["freshtable-force"] == "true"


def test_a_refresh_that_was_cancelled_at_the_gateway_is_not_tried_again(stub: StubGateway) -> None:
    stub.looks = None
    trigger = deferred(operator(grace_s=0), context())
    stub.end(stub.runs[0], "CANCELED")

    with pytest.raises(AirflowFailException, match="cancelled at the gateway"):
        operator().execute_complete(context(), fired(trigger))


def test_a_dropped_table_fails_the_task_for_good_and_says_so(stub: StubGateway) -> None:
    stub.refusals = [refusal(410, "TABLE_GONE", "Materialized table lake.sales.daily was dropped.")]

    with pytest.raises(
        AirflowFailException, match=r"the table was dropped.*lake\.sales\.daily was dropped\."
    ):
        operator().execute(context())

    assert stub.sessions == set()


def test_a_token_that_is_refused_fails_the_task_for_good_and_says_whose_it_is(stub: StubGateway) -> None:
    stub.refusals = [refusal(401, "UNAUTHORIZED", "No.")]

    with pytest.raises(
        AirflowFailException, match=r"401 UNAUTHORIZED: the password of the Airflow connection .* No\."
    ):
        operator().execute(context())


def test_a_token_of_the_wrong_role_fails_the_task_for_good_with_the_role_it_needs(stub: StubGateway) -> None:
    needed = (
        "Forbidden: token 'anna' has the role sql; this request needs a token with the role refresh or admin."
    )
    stub.refusals = [refusal_with_facts(403, "FORBIDDEN", needed)]

    with pytest.raises(AirflowFailException, match=f"403 FORBIDDEN: {needed}"):
        operator().execute(context())


@pytest.mark.parametrize("status", [400, 404, 409])
def test_what_the_gateway_refuses_is_not_tried_again(stub: StubGateway, status: int) -> None:
    stub.refusals = [refusal(status, "REQUEST_INVALID", "No.")]

    with pytest.raises(AirflowFailException, match=f"{status} REQUEST_INVALID: No"):
        operator().execute(context())


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_what_may_pass_is_tried_again(stub: StubGateway, status: int) -> None:
    stub.refusals = [Answer(status, None)]

    with pytest.raises(GatewayUnavailable):
        operator().execute(context())


def test_past_its_deadline_a_refresh_is_cancelled_by_the_trigger(stub: StubGateway) -> None:
    stub.looks = None
    event = fired(deferred(operator(grace_s=0, deadline=timedelta(seconds=0.2)), context()))

    with pytest.raises(AirflowException, match=r"took longer than 0:00:00\.2"):
        operator(deadline=timedelta(seconds=0.2)).execute_complete(context(), event)

    assert event["end"] == "late"
    assert stub.runs[0].status == "CANCELED"
    assert stub.sessions == set()


def test_airflows_own_time_limit_is_kept_as_the_deadline() -> None:
    task = operator(execution_timeout=timedelta(minutes=5))

    assert task.deadline == timedelta(minutes=5)
    assert task.execution_timeout is None


def test_a_task_ended_by_hand_cancels_its_run_as_trigger_and_as_process(stub: StubGateway) -> None:
    stub.looks = None
    trigger = deferred(operator(grace_s=0), context())
    asyncio.run(trigger.on_kill())
    task = operator(grace_s=0)
    deferred(task, context(cleared=1))
    task.on_kill()

    assert [run.status for run in stub.runs] == ["CANCELED", "CANCELED"]
    assert stub.sessions == set()


def test_a_late_cancel_of_an_old_attempt_leaves_the_run_to_the_new_one(stub: StubGateway) -> None:
    stub.looks = None
    old = deferred(operator(grace_s=0), context())
    deferred(operator(grace_s=0), context(attempt=2))

    asyncio.run(old.on_kill())

    assert [run.status for run in stub.runs] == ["RUNNING"]


def test_a_run_that_is_over_is_no_trouble_to_cancel(stub: StubGateway) -> None:
    trigger = deferred(operator(grace_s=0), context())
    stub.end(stub.runs[0])

    asyncio.run(trigger.on_kill())

    assert stub.runs[0].status == "FINISHED"


def test_without_deferring_the_task_waits_to_the_end(stub: StubGateway) -> None:
    stub.looks = 8

    assert operator(deferrable=False, grace_s=0).execute(context())["rows"] == 42


def test_terms_survive_the_trip_to_the_triggerer(stub: StubGateway) -> None:
    before = time.time()

    trigger = deferred(operator(grace_s=0, deadline=timedelta(hours=1), patience_s=7), context())

    assert trigger.terms.patience_s == 7
    assert before + 3600 <= (trigger.terms.until or 0) <= time.time() + 3600
