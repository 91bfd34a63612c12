"""The operator: requests the refresh of a materialized table and waits for it without occupying a worker.

A refresh runs in the gateway and may take hours, while its Airflow task may be retried, cleared, killed or
moved to another process at any time. So the task only stores a request key. The key is the same for all
retries of a task instance, and the gateway returns the same run for it. So a retry continues to wait for the
run of the previous attempt, and a cleared task, whose key differs, starts a new run. The operator itself
waits for a short grace period. Then it defers to the trigger (`trigger.py`), which polls the run without a
worker slot. Both use the same conversation (`watch.py`). If the deadline passes or a user ends the task, the
run is cancelled, so that Spark does not continue to work for nothing. If the gateway is unreachable, the run
may continue, and a retry finds it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from freshtable_airflow.conversation import begin_refresh, cancel, close_session, get_outcome
from freshtable_airflow.errors import (
    FreshtableError,
    GatewayRefused,
    GatewayUnavailable,
    RefreshFailed,
    RefreshHopeless,
)
from freshtable_airflow.hook import DEFAULT_CONNECTION, FreshtableHook
from freshtable_airflow.link import RUN_URL, GatewayRunLink, run_url
from freshtable_airflow.request import RefreshRequest, RunAddress, key_of, trigger_of
from freshtable_airflow.transport import Gateway
from freshtable_airflow.trigger import RefreshTrigger
from freshtable_airflow.watch import Terms, watch
from freshtable_airflow.zone import wall_clock

FORCE = "force"
FINISHED = "FINISHED"
CANCELED = "CANCELED"
# Airflow can mark a task as failed if it is resumed seconds after it was deferred. So the task itself waits
# for short refreshes. If a run ends soon after the deferral, the trigger delays its report, but the rows are
# published immediately.
GRACE_S = 15.0
SETTLE_S = 10.0
POLL_INTERVAL_S = 3.0
PATIENCE_S = 300.0


class RefreshMaterializedTableOperator(BaseOperator):
    """Refreshes *table* for the run's schedule time, or exactly the given *partitions*.

    A retry continues the run of the previous attempt; a cleared task starts a new one. *zone* is the table's
    time zone. *deadline*, or `execution_timeout`, limits the whole refresh, which is cancelled after that
    time. With *force*, the table is refreshed even if its sources have not changed. The result has
    `decision`, `reason`, `partitions`, `rows` and `snapshot`. If nothing had changed and nothing was written,
    the outlets receive no event.
    """

    template_fields: Sequence[str] = ("table", "partitions", "dynamic_options", "execution_config")
    operator_extra_links = (GatewayRunLink(),)
    ui_color = "#d7f0e8"

    def __init__(  # noqa: PLR0913 (users set an operator's arguments in their DAGs)
        self,
        *,
        table: str,
        partitions: Mapping[str, str] | None = None,
        dynamic_options: Mapping[str, str] | None = None,
        execution_config: Mapping[str, str] | None = None,
        init_config: Mapping[str, str] | None = None,
        force: bool = False,
        zone: str = "UTC",
        workflow_id: str = "",
        details_url: str = "",
        freshtable_conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool = True,
        deadline: timedelta | None = None,
        grace_s: float = GRACE_S,
        settle_s: float = SETTLE_S,
        poll_interval_s: float = POLL_INTERVAL_S,
        patience_s: float = PATIENCE_S,
        execution_timeout: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table, self.zone, self.workflow_id, self.details_url = table, zone, workflow_id, details_url
        self.partitions, self.dynamic_options = dict(partitions or {}), dict(dynamic_options or {})
        self.execution_config, self.init_config = dict(execution_config or {}), dict(init_config or {})
        self.force, self.freshtable_conn_id, self.deferrable = force, freshtable_conn_id, deferrable
        self.deadline = deadline or execution_timeout
        self.grace_s, self.settle_s = grace_s, settle_s
        self.poll_interval_s, self.patience_s = poll_interval_s, patience_s
        self._run: RunAddress | None = None

    # ------------------------------------------------------------------------------------- what Airflow calls

    def execute(self, context: Context) -> dict[str, Any]:
        until = time.time() + self.deadline.total_seconds() if self.deadline else None
        hook = FreshtableHook(self.freshtable_conn_id)
        address = hook.address
        with Gateway(address) as gateway:
            self._run = self._begin(gateway, context)
            url = run_url(self.details_url, address.url, self._run.handle)
            context["ti"].xcom_push(RUN_URL, url)
            end = self._watch(gateway, until)
            if end:
                return self._finish(gateway, context, end)
        terms = Terms(until, self.poll_interval_s, self.patience_s, not_before=time.time() + self.settle_s)
        run, connection = asdict(self._run), self.freshtable_conn_id
        trigger = RefreshTrigger(run=run, freshtable_conn_id=connection, terms=asdict(terms))
        raise TaskDeferred(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Continue the task after the trigger has fired."""
        self._run = RunAddress(**event["run"])
        if event["end"] == "unreachable":
            raise GatewayUnavailable(f"{event['problem']} The run may continue; a retry resumes it.")
        if event["end"] == "refused":
            raise AirflowFailException(event["problem"])
        with FreshtableHook(self.freshtable_conn_id).get_conn() as gateway:
            return self._finish(gateway, context, event["end"])

    def on_kill(self) -> None:
        """Cancel the run, because the task was killed while its process was alive."""
        if self._run is None:
            return
        try:
            # The process may be in the middle of a request, so its connection must not be used here.
            with FreshtableHook(self.freshtable_conn_id).get_conn() as gateway:
                run, answer = gateway.hold(cancel(self._run))
                gateway.hold(close_session(run))
        except FreshtableError as error:
            answer = f"not cancelled: {error}"
        self.log.info("The task was ended manually: refresh of %s %s", self.table, answer)

    # ---------------------------------------------------------------------------------------------- its steps

    def _begin(self, gateway: Gateway, context: Context) -> RunAddress:
        dag_run, task_instance = context["dag_run"], context["ti"]
        schedule_time = wall_clock(dag_run.data_interval_end or dag_run.run_after, self.zone)
        request = RefreshRequest(
            table=self.table,
            key=key_of(self.workflow_id or self.table, task_instance, dag_run),
            attempt=task_instance.try_number,
            schedule_time="" if self.partitions else schedule_time,
            workflow_id=self.workflow_id,
            partitions=self.partitions,
            dynamic_options=self.dynamic_options,
            execution_config=self.execution_config,
            force=self._is_forced(context),
            trigger=trigger_of(dag_run),
        )
        scope = f"schedule time {schedule_time} ({self.zone}), the period that ends then"
        if request.partitions:
            scope = f"partitions {request.partitions}"
        forced = ", forced" if request.force else ""
        self.log.info(
            "Requesting the refresh of %s, %s%s, attempt %d.", self.table, scope, forced, request.attempt
        )
        try:
            run = gateway.hold(begin_refresh(request, self.init_config))
        except GatewayRefused as error:
            raise AirflowFailException(str(error)) from error
        self.log.info("The gateway accepted it as run %s: %s.", run.handle, run.partitions)
        return run

    def _is_forced(self, context: Context) -> bool:
        return self.force

    def _watch(self, gateway: Gateway, until: float | None) -> str:
        """Return how the run ended: its status, or "late" if the deadline has passed.

        The result is "" if the trigger must continue to watch the run.
        """
        assert self._run is not None
        grace = time.time() + self.grace_s if self.deferrable else None
        ends = [end for end in (grace, until) if end is not None]
        terms = Terms(min(ends, default=None), self.poll_interval_s, self.patience_s)
        log_progress = partial(self.log.info, "Refresh of %s: %s", self.table)
        try:
            self._run, progress = gateway.hold(watch(self._run, terms, log_progress))
        except GatewayRefused as error:
            raise AirflowFailException(str(error)) from error
        if progress.ended:
            return progress.status
        return "late" if until is not None and time.time() >= until else ""

    def _finish(self, gateway: Gateway, context: Context, end: str) -> dict[str, Any]:
        """Return the result of the run, or fail the task with the reason."""
        assert self._run is not None
        run = self._run
        try:
            if end == "late":
                run, answer = gateway.hold(cancel(run))
                raise AirflowException(
                    f"The refresh of {run.table} took longer than {self.deadline}: {answer}."
                )
            if end == CANCELED:
                raise AirflowFailException(
                    f"The refresh of {run.table} was cancelled at the gateway, run {run.handle}."
                )
            run, outcome = gateway.hold(get_outcome(run))
        except RefreshHopeless as error:
            raise AirflowFailException(f"{error} Another attempt would fail in the same way.") from error
        except RefreshFailed as error:
            self.log.error("%s", error)
            raise
        finally:
            with suppress(FreshtableError):
                gateway.hold(close_session(run))
        self._run = None
        self.log.info("Refresh of %s %s: %s.", run.table, end, outcome.line)
        result = {**asdict(outcome), "run": run.handle}
        if outcome.decision != "refresh":
            # Airflow emits an event for each outlet of the task, even if nothing was written.
            self.outlets = []
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = dict(result)
        return result


class RefreshWorkflowOperator(RefreshMaterializedTableOperator):
    """The task of a table's own DAG.

    It renders no templates. Templates can read Airflow's connections and variables, but the fields were
    written by users of the gateway, who may not be allowed to read these.
    """

    template_fields: Sequence[str] = ()

    def _is_forced(self, context: Context) -> bool:
        """Return whether the run was triggered with `force`."""
        return context["params"].get(FORCE) is True
