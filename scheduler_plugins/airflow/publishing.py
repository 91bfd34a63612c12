"""Publishing: makes Airflow turn a definition in the store into a visible DAG."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from mt_core.clock import Clock
from mt_core.errors import WorkflowError
from mt_core.model.freshness import cron_of
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition, shard_of
from mt_core.workflow.operations import Schedule
from scheduler_plugins.airflow.dags import Dag, Dags
from scheduler_plugins.airflow.names import anchor_of
from scheduler_plugins.airflow.settings import PREFIX, PUBLISH_TIMEOUT, AirflowSettings

POLL_S = 0.1
LONGEST_POLL_S = 0.25
PARSE_AGAIN_S = 5.0
# Airflow's scheduler ignores a new schedule if the DAG was last written within [core]
# min_serialized_dag_update_interval (default 30 s), so the file must be parsed again later.
FOLLOW_UP = timedelta(seconds=35)
# Airflow parses files one after the other, and a statement soon after the gateway's start must not have to
# wait for the files of all shards.
FOLLOW_UPS_AT_ONCE = 2
FOLLOW_UPS_EVERY = timedelta(seconds=10)
_LONGEST_DOC = 600
# The state of the shard, which newer versions of freshtable-airflow write into the anchor's description. In
# the REST API, only the description, the tags and the timetable summary are as new as the last parse. Params
# are in the serialized DAG, which may be up to 30 s older, and a tag would clutter the filter of the DAG
# list.
_STATE = re.compile(r"State: (\w{16,})")
T = TypeVar("T")
log = logging.getLogger(__name__)


def _label(schedule: Schedule) -> str:
    """Return the label that freshtable-airflow gives a schedule in the summary of its timetable."""
    if schedule.cron is not None:
        return schedule.cron.expression
    interval = schedule.interval
    return cron_of(interval) or f"every {interval.amount} {interval.unit}"


class Publisher:
    """Makes Airflow parse stored definitions, shard by shard, and waits for the result. Thread-safe."""

    def __init__(
        self, dags: Dags, definitions: DefinitionStore, settings: AirflowSettings, clock: Clock
    ) -> None:
        self._dags, self._definitions, self._settings, self._clock = dags, definitions, settings, clock
        self._lock = threading.Lock()
        self._follow_ups: dict[int, timedelta] = {}
        self._caught_up_at = clock.elapsed() - FOLLOW_UPS_EVERY

    def find_anchor(self, shard: int) -> Dag | None:
        """Return the anchor DAG of a shard, or None if Airflow does not read the shard's file."""
        dag = self._dags.get(anchor_of(self._settings.dag_id_prefix, shard))
        return None if dag is None or dag.is_stale else dag

    def anchor(self, workflow_id: str) -> Dag:
        """Return the anchor DAG of the workflow's shard.

        If there is none, raises WorkflowError saying what Airflow lacks.
        """
        shard = shard_of(workflow_id)
        dag = self.find_anchor(shard)
        if dag is None:
            raise WorkflowError(
                f"Airflow at {self._dags.client.endpoint} has no DAG "
                f"{anchor_of(self._settings.dag_id_prefix, shard)}: its DAG processor must have "
                "freshtable-airflow installed and our bundle in [dag_processor] dag_bundle_config_list, "
                f"with the dag_id_prefix {self._settings.dag_id_prefix!r}."
            )
        return dag

    def show(self, definition: WorkflowDefinition) -> Dag:
        """Wait until Airflow shows the DAG of *definition* with its schedule and return the DAG."""

        schedule = definition.schedule
        interval = _label(schedule)
        # This summary is the only field of a timetable in the REST API; freshtable-airflow derives it from
        # the served schedule.
        summary = f"{interval} ({schedule.zone}) since {schedule.since.isoformat(timespec='seconds')}"

        def probe() -> Dag | None:
            dag = self._dags.get(definition.name)
            return dag if dag is not None and not dag.is_stale and dag.summary == summary else None

        label = f"DAG {definition.name} ({definition.identifier})"
        anchor = self.anchor(definition.workflow_id)
        return self._parse_until(anchor, probe, lambda: f"{label} {self._state_of(definition)}")

    def read_again(self, workflow_id: str, *, within_s: float | None = None) -> None:
        """Wait until Airflow has parsed the workflow's shard in its current state, or raise WorkflowError.

        *within_s* limits the wait, in seconds (None: the setting). A parse that ends now may have started
        before the last change, in which case Airflow drops our request. The state in the anchor's description
        tells whether a parse includes the change.
        """
        before, states = self.anchor(workflow_id), set[str]()

        def probe() -> bool | None:
            # Concurrent changes result in further states, all of which include the caller's change.
            states.add(self._definitions.shard(shard_of(workflow_id))[0])
            anchor = self.anchor(workflow_id)
            state = _STATE.search(anchor.description)
            return True if anchor.parsed != before.parsed and (state is None or state[1] in states) else None

        self._parse_until(
            before, probe, lambda: f"the file of {before.dag_id} has not been parsed again", within_s
        )

    def follow_up(self, workflow_id: str) -> None:
        """Schedule another parse of the shard after `FOLLOW_UP`; a later call of `catch_up` requests it."""
        with self._lock:
            self._follow_ups[shard_of(workflow_id)] = self._clock.elapsed() + FOLLOW_UP

    def catch_up(self) -> None:
        """Request the parses that are due, for up to `FOLLOW_UPS_AT_ONCE` shards."""
        now = self._clock.elapsed()
        with self._lock:
            if now - self._caught_up_at < FOLLOW_UPS_EVERY:
                return
            due = [shard for shard, at in self._follow_ups.items() if at <= now]
            due = sorted(due, key=self._follow_ups.__getitem__)[:FOLLOW_UPS_AT_ONCE]
            self._caught_up_at = now if due else self._caught_up_at
            for shard in due:
                del self._follow_ups[shard]
        for shard in due:
            self.request_parse(shard)

    def request_parse(self, shard: int) -> None:
        """Request a parse of the shard without waiting for it."""
        anchor = self._dags.get(anchor_of(self._settings.dag_id_prefix, shard))
        if anchor is not None:
            self._dags.parse(anchor)

    def _parse_until(
        self,
        anchor: Dag,
        probe: Callable[[], T | None],
        lacking: Callable[[], str],
        within_s: float | None = None,
    ) -> T:
        """Request parses of the anchor's file until *probe* returns a result and return that result.

        Raises WorkflowError with the text of *lacking* after *within_s* seconds (None: the setting).
        """
        longest_s = self._settings.publish_timeout_s if within_s is None else within_s
        began = requested = self._clock.elapsed()
        self._dags.parse(anchor)
        poll_s = POLL_S
        while (result := probe()) is None:
            now = self._clock.elapsed()
            if now - began >= timedelta(seconds=longest_s):
                raise WorkflowError(
                    f"Airflow at {self._dags.client.endpoint}: {lacking()} within {longest_s:g} s "
                    f"({PREFIX}{PUBLISH_TIMEOUT.key}); make sure that its DAG processor runs and "
                    "reaches this gateway."
                )
            if now - requested >= timedelta(seconds=PARSE_AGAIN_S):
                requested = now
                self._dags.parse(anchor)
            self._dags.client.pause(poll_s)
            poll_s = min(poll_s * 1.5, LONGEST_POLL_S)
        return result

    def _state_of(self, definition: WorkflowDefinition) -> str:
        """Return a message saying how far Airflow has processed a definition that it does not show."""
        dag = self._dags.get(definition.name)
        if dag is not None and not dag.is_stale:
            return f"is still on the schedule '{dag.summary}'"
        anchor = anchor_of(self._settings.dag_id_prefix, shard_of(definition.workflow_id))
        doc = " ".join(self._dags.doc(anchor).split())
        return f"has not appeared ({anchor} says: {doc[:_LONGEST_DOC]})" if doc else "has not appeared"
