"""DAGs as Airflow's REST API has them, and what can be done to one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from mt_core.errors import WorkflowError
from scheduler_plugins.airflow.client import (
    CONFLICT,
    CREATED,
    FORBIDDEN,
    NO_CONTENT,
    NOT_FOUND,
    OK,
    SERVER_ERROR,
    AirflowClient,
)

# Airflow cuts longer pages down to this length without saying so.
PAGE = 100
ACTIVE_RUNS = ("running", "queued")
# The event log is asked about so many DAGs one by one.
FEW_EVENTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Dag:
    """A DAG; one that is *stale* is in no file any more. `summary` is the text of its timetable, `parsed` an opaque time.

    `description` is empty where Airflow has none.
    """

    dag_id: str
    is_paused: bool
    is_stale: bool
    next_run: datetime | None
    summary: str
    parsed: str
    description: str
    file_token: str

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Dag:
        next_run = body.get("next_dagrun_run_after")
        return cls(
            dag_id=body["dag_id"],
            is_paused=bool(body["is_paused"]),
            is_stale=bool(body["is_stale"]),
            next_run=datetime.fromisoformat(next_run) if next_run else None,
            summary=body.get("timetable_summary") or "",
            parsed=body.get("last_parsed_time") or "",
            description=body.get("description") or "",
            file_token=body.get("file_token") or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseEvent:
    """An entry of the event log: who paused or resumed a DAG, and when."""

    owner: str
    when: datetime
    paused: bool


class Dags:
    """The DAGs of one Airflow; every method is idempotent and raises WorkflowError."""

    def __init__(self, client: AirflowClient) -> None:
        self.client = client

    def get(self, dag_id: str) -> Dag | None:
        answer = self.client.get(_path(dag_id), accept=(OK, NOT_FOUND, SERVER_ERROR))
        if answer.status_code == SERVER_ERROR:
            raise WorkflowError(
                f"Airflow at {self.client.endpoint} cannot show DAG {dag_id} (500 {answer.text[:200]}); if that stays so, its "
                "api-server does not have our timetables: install freshtable-airflow where it runs, and start it again."
            )
        return self.client.read(answer, Dag.from_json) if answer.status_code == OK else None

    def doc(self, dag_id: str) -> str:
        """Return the documentation of a DAG, empty when there is none."""
        answer = self.client.get(f"{_path(dag_id)}/details", accept=(OK, NOT_FOUND, SERVER_ERROR))
        found = answer.status_code == OK
        return self.client.read(answer, lambda body: str(body.get("doc_md") or "")) if found else ""

    def pause(self, dag_id: str, *, paused: bool) -> bool:
        """Pause or resume a DAG; return whether it is there."""
        answer = self.client.call("PATCH", _path(dag_id), accept=(OK, NOT_FOUND), json={"is_paused": paused})
        return answer.status_code == OK

    def parse(self, dag: Dag) -> None:
        """Have the file of *dag* read again at once, after its bundle; an earlier request that still waits is as good."""
        self.client.call("PUT", f"/parseDagFile/{quote(dag.file_token, safe='')}", accept=(OK, CREATED, CONFLICT))

    def delete(self, dag_id: str) -> bool:
        """Delete a DAG with its runs; return False when Airflow cannot do so just now. One that is gone is deleted."""
        answer = self.client.call("DELETE", _path(dag_id), accept=(OK, NO_CONTENT, NOT_FOUND, CONFLICT, SERVER_ERROR))
        return answer.status_code in (OK, NO_CONTENT, NOT_FOUND)

    def fail_active_runs(self, dag_id: str) -> None:
        """Fail the runs of a DAG that have not ended, which cancels what they do."""
        params = {"state": ACTIVE_RUNS, "limit": PAGE}
        answer = self.client.get(f"{_path(dag_id)}/dagRuns", params, accept=(OK, NOT_FOUND))
        for run_id in self.client.read(answer, _run_ids) if answer.status_code == OK else []:
            path = f"{_path(dag_id)}/dagRuns/{quote(run_id, safe='')}"
            # A run that has just ended, or that the scheduler is writing, is looked at again by the caller.
            accept = (OK, NOT_FOUND, CONFLICT, SERVER_ERROR)
            self.client.call("PATCH", path, accept=accept, json={"state": "failed"})

    # ------------------------------------------------------------------------------------------------------------ in bulk

    def paused(self, prefix: str) -> list[Dag]:
        """Return the DAGs that are paused, also those that are stale."""
        return list(self._pages({"dag_id_prefix_pattern": prefix, "paused": True, "exclude_stale": False}))

    def all(self, prefix: str) -> list[Dag]:
        """Return every DAG that is in a file."""
        return list(self._pages({"dag_id_prefix_pattern": prefix}))

    def count(self, prefix: str) -> int:
        """Return how many DAGs `all` would return."""
        answer = self.client.get("/dags", {"dag_id_prefix_pattern": prefix, "limit": 1})
        return self.client.read(answer, _total)

    def latest_pauses(self, dag_ids: Sequence[str]) -> dict[str, PauseEvent]:
        """Return the newest entry of the event log about pausing each DAG, if there is one and it may be read.

        Of many DAGs only those that were paused one by one, and lately, are found.
        """
        if len(dag_ids) > FEW_EVENTS:
            events = self._events({"limit": PAGE})
        else:
            events = [event for dag_id in dag_ids for event in self._events({"dag_id": dag_id, "limit": 1})]
        found: dict[str, PauseEvent] = {}
        for dag_id, event in events:
            if dag_id in dag_ids and event is not None:
                found.setdefault(dag_id, event)
        return found

    def _events(self, wanted: Mapping[str, Any]) -> list[tuple[str, PauseEvent | None]]:
        params = {**wanted, "included_events": "patch_dag", "order_by": "-when"}
        answer = self.client.get("/eventLogs", params, accept=(OK, FORBIDDEN))
        return self.client.read(answer, _pause_events) if answer.status_code == OK else []

    def _pages(self, wanted: Mapping[str, Any]) -> Iterator[Dag]:
        offset = 0
        while True:
            params = {**wanted, "order_by": "dag_id", "limit": PAGE, "offset": offset}
            found, total = self.client.read(self.client.get("/dags", params), _page)
            yield from found
            offset += len(found)
            if not found or offset >= total:
                return


def _path(dag_id: str) -> str:
    return f"/dags/{quote(dag_id, safe='')}"


def _page(body: Mapping[str, Any]) -> tuple[list[Dag], int]:
    return [Dag.from_json(dag) for dag in body["dags"]], _total(body)


def _total(body: Mapping[str, Any]) -> int:
    return int(body["total_entries"])


def _run_ids(body: Mapping[str, Any]) -> list[str]:
    return [str(run["dag_run_id"]) for run in body["dag_runs"]]


def _pause_events(body: Mapping[str, Any]) -> list[tuple[str, PauseEvent | None]]:
    return [(str(event["dag_id"]), _pause_event(event)) for event in body["event_logs"]]


def _pause_event(event: Mapping[str, Any]) -> PauseEvent | None:
    try:
        paused = json.loads(event["extra"] or "{}")["is_paused"]
    except (ValueError, KeyError, TypeError):
        return None
    return PauseEvent(
        owner=str(event.get("owner") or ""), when=datetime.fromisoformat(event["when"]), paused=_is_true(paused)
    )


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"
