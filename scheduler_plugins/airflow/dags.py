"""DAGs as Airflow's REST API returns them, and the calls that read and change them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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

# Airflow silently limits pages to this length.
PAGE = 100
ACTIVE_RUNS = ("running", "queued")
# Up to this many DAGs are looked up in the event log one by one.
FEW_EVENTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Dag:
    """A DAG; it *is_stale* if it is no longer defined in a file.

    `summary` is the text of its timetable, `parsed` an opaque time, and `description` is "" if Airflow has
    none.
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

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> PauseEvent | None:
        """Return the event of a log entry, or None if it does not say whether the DAG was paused."""
        try:
            paused = json.loads(body["extra"] or "{}")["is_paused"]
        except (ValueError, KeyError, TypeError):
            return None
        when = datetime.fromisoformat(body["when"])
        return cls(owner=str(body.get("owner") or ""), when=when, paused=str(paused).lower() == "true")


@dataclass(frozen=True, slots=True)
class Dags:
    """The DAGs of one Airflow; every method is idempotent and may raise WorkflowError."""

    client: AirflowClient

    def get(self, dag_id: str) -> Dag | None:
        answer = self.client.get(_path(dag_id), accept=(OK, NOT_FOUND, SERVER_ERROR))
        if answer.status_code == SERVER_ERROR:
            raise WorkflowError(
                f"Airflow at {self.client.endpoint} cannot show DAG {dag_id} (500 {answer.text[:200]}); "
                "if this persists, its api-server lacks our timetables: "
                "install freshtable-airflow where it runs, and restart it."
            )
        return self.client.read(answer, Dag.from_json) if answer.status_code == OK else None

    def doc(self, dag_id: str) -> str:
        """Return the documentation of a DAG, or "" if it has none or Airflow does not return it."""
        answer = self.client.get(f"{_path(dag_id)}/details", accept=(OK, NOT_FOUND, SERVER_ERROR))
        return (
            self.client.read(answer, lambda body: str(body.get("doc_md") or ""))
            if answer.status_code == OK
            else ""
        )

    def pause(self, dag_id: str, *, paused: bool) -> bool:
        """Pause or resume a DAG; return False if it does not exist."""
        answer = self.client.call("PATCH", _path(dag_id), accept=(OK, NOT_FOUND), json={"is_paused": paused})
        return answer.status_code == OK

    def parse(self, dag: Dag) -> None:
        """Request that Airflow immediately refreshes the bundle of *dag* and parses its file.

        If such a request is already pending, this has no further effect.
        """
        self.client.call(
            "PUT", f"/parseDagFile/{quote(dag.file_token, safe='')}", accept=(OK, CREATED, CONFLICT)
        )

    def delete(self, dag_id: str) -> bool:
        """Delete a DAG with its runs; return False if Airflow cannot do so now.

        Returns True if the DAG does not exist.
        """
        answer = self.client.call(
            "DELETE", _path(dag_id), accept=(OK, NO_CONTENT, NOT_FOUND, CONFLICT, SERVER_ERROR)
        )
        return answer.status_code in (OK, NO_CONTENT, NOT_FOUND)

    def fail_active_runs(self, dag_id: str) -> None:
        """Mark the active runs of a DAG as failed, which cancels their refreshes.

        A missing DAG is ignored, as are runs that Airflow is changing.
        """
        params = {"state": ACTIVE_RUNS, "limit": PAGE}
        answer = self.client.get(f"{_path(dag_id)}/dagRuns", params, accept=(OK, NOT_FOUND))
        if answer.status_code != OK:
            return
        for run_id in self.client.read(
            answer, lambda body: [str(run["dag_run_id"]) for run in body["dag_runs"]]
        ):
            path = f"{_path(dag_id)}/dagRuns/{quote(run_id, safe='')}"
            # If a run has just ended, or the scheduler is writing it, the caller tries again.
            accept = (OK, NOT_FOUND, CONFLICT, SERVER_ERROR)
            self.client.call("PATCH", path, accept=accept, json={"state": "failed"})

    # ------------------------------------------------------------------------------------------------ in bulk

    def search(self, prefix: str, *, paused: bool = False) -> list[Dag]:
        """Return all DAGs that are defined in a file, or all *paused* DAGs including stale ones."""
        only = {"paused": "true", "exclude_stale": "false"} if paused else {}
        dags: list[Dag] = []
        while True:
            window = {"order_by": "dag_id", "limit": PAGE, "offset": len(dags)}
            answer = self.client.get("/dags", {"dag_id_prefix_pattern": prefix, **only, **window})
            page, total = self.client.read(
                answer,
                lambda body: ([Dag.from_json(dag) for dag in body["dags"]], int(body["total_entries"])),
            )
            dags += page
            if not page or len(dags) >= total:
                return dags

    def count(self, prefix: str) -> int:
        """Return the number of DAGs whose ids begin with *prefix* and that are defined in a file."""
        answer = self.client.get("/dags", {"dag_id_prefix_pattern": prefix, "limit": 1})
        return self.client.read(answer, lambda body: int(body["total_entries"]))

    def latest_pauses(self, dag_ids: Sequence[str]) -> dict[str, PauseEvent]:
        """Return the newest pause event of each DAG that has one; nothing if the event log may not be read.

        For more than `FEW_EVENTS` DAGs, only the latest 100 events are searched.
        """
        queries: list[dict[str, Any]] = [{"dag_id": dag_id, "limit": 1} for dag_id in dag_ids]
        latest: dict[str, PauseEvent] = {}
        for query in queries if len(dag_ids) <= FEW_EVENTS else [{"limit": PAGE}]:
            params = {**query, "included_events": "patch_dag", "order_by": "-when"}
            answer = self.client.get("/eventLogs", params, accept=(OK, FORBIDDEN))
            if answer.status_code != OK:
                continue
            events = self.client.read(
                answer,
                lambda body: [
                    (str(event["dag_id"]), PauseEvent.from_json(event)) for event in body["event_logs"]
                ],
            )
            for dag_id, event in events:
                if dag_id in dag_ids and event is not None:
                    latest.setdefault(dag_id, event)
        return latest


def _path(dag_id: str) -> str:
    return f"/dags/{quote(dag_id, safe='')}"
