"""Airflow's REST API as its UI uses it, for tests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

T = TypeVar("T")
LOOK_AGAIN_S = 0.2
TRIES = 20
# Longer than Airflow waits for SQLite (30 s) before it answers that the database is locked.
ANSWERS_S = 90
# What Airflow does within 5 to 40 s on a machine that has nothing else to do.
SOON_S = 180
# What Airflow says, with 500 and 503, when another of its processes was writing to SQLite just then.
BUSY = re.compile("Database error|Database is locked")


class AirflowRest:
    """Logs in when it is first needed, and again when its token is too old.

    What failed because SQLite was busy is asked for again: it has changed nothing.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=ANSWERS_S, trust_env=False)
        self._user, self._password = user, password
        self._token = ""

    def close(self) -> None:
        self._client.close()

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **query: Any
    ) -> httpx.Response:
        """Return the answer to a call of `/api/v2`."""
        for _ in range(TRIES):
            answer = self._client.request(
                method,
                f"/api/v2{path}",
                json=body,
                params=query,
                headers={"Authorization": f"Bearer {self.token()}"},
            )
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                self._token = ""
                continue
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR or not BUSY.search(answer.text):
                return answer
            time.sleep(LOOK_AGAIN_S)
        return answer

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Return what is at *path*, or {} where there is nothing."""
        answer = self.ask("GET", path, **query)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return {}
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def health(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._client.get("/api/v2/monitor/health", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return found

    def wait(self, true: Callable[[], T], timeout_s: float) -> T:
        """Return what *true* gives as soon as that is true; raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while not (found := true()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout_s} s; last: {found!r}")
            time.sleep(LOOK_AGAIN_S)
        return found

    # ------------------------------------------------------------------------------------------ what users do

    def dag(self, dag_id: str) -> dict[str, Any]:
        return self.get(f"/dags/{dag_id}")

    def parse_file_of(self, dag_id: str) -> None:
        """Have the file of a DAG parsed now, as the gateway does after a change."""
        answer = self.ask("PUT", f"/parseDagFile/{self.dag(dag_id)['file_token']}")
        assert answer.status_code in (httpx.codes.CREATED, httpx.codes.CONFLICT), answer.text

    def pause(self, dag_id: str, paused: bool) -> None:
        self.ask("PATCH", f"/dags/{dag_id}", {"is_paused": paused}).raise_for_status()

    def asset_events(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the events of assets that a DAG's tasks have sent."""
        return list(self.get("/assets/events", source_dag_id=dag_id).get("asset_events", []))

    def trigger(
        self, dag_id: str, *, logical_date: str | None = None, conf: Mapping[str, Any] | None = None
    ) -> str:
        """Run a DAG by hand and return the run's id."""
        body = {"logical_date": logical_date, "conf": dict(conf or {})}
        answer = self.ask("POST", f"/dags/{dag_id}/dagRuns", body)
        return str(answer.raise_for_status().json()["dag_run_id"])

    def backfill(self, dag_id: str, begin: str, end: str) -> None:
        body = {
            "dag_id": dag_id,
            "from_date": begin,
            "to_date": end,
            "reprocess_behavior": "none",
            "max_active_runs": 1,
        }
        answer = self.ask("POST", "/backfills", body)
        assert answer.is_success, answer.text

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.get(f"/dags/{dag_id}/dagRuns", limit=100).get("dag_runs", []))

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        return self.get(f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}")

    def task(self, dag_id: str, run_id: str, task_id: str = "refresh") -> dict[str, Any]:
        return self.get(f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}")

    def mark_task(self, dag_id: str, run_id: str, state: str, task_id: str = "refresh") -> None:
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}"
        self.ask("PATCH", path, {"new_state": state}).raise_for_status()

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        self.ask(
            "PATCH", f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}", {"state": state}
        ).raise_for_status()

    def clear_task(self, dag_id: str, run_id: str, task_id: str = "refresh") -> None:
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self.ask("POST", f"/dags/{dag_id}/clearTaskInstances", body).raise_for_status()

    def task_log(self, dag_id: str, run_id: str, attempt: int = 1, task_id: str = "refresh") -> str:
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/logs/{attempt}"
        return self.ask("GET", path, full_content="true").text

    def links(self, dag_id: str, run_id: str, task_id: str = "refresh") -> dict[str, str]:
        return self.get(f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/links")[
            "extra_links"
        ]

    def result(self, dag_id: str, run_id: str, task_id: str = "refresh") -> Any:
        path = (
            f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/"
            "xcomEntries/return_value"
        )
        return self.get(path).get("value")

    def token(self) -> str:
        """Return the token of a login."""
        if not self._token:
            body = {"username": self._user, "password": self._password}
            self._token = (
                self._client.post("/auth/token", json=body).raise_for_status().json()["access_token"]
            )
        return self._token
