"""FakeAirflow: the REST API of an Airflow with Freshtable's package, for tests of the client.

It simulates Airflow's delays. When a file is parsed, it reads definitions from a store, as the bundle reads
them from the gateway. Due DAGs run only when a test requests it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mt_core.clock import Clock
from mt_core.model.cadence import Grid
from mt_core.workflow.definitions import SHARDS, DefinitionStore, WorkflowDefinition, shard_of
from mt_core.workflow.publishing import schedule_json
from tests.support.tick import gateway_client, send_tick

ALL_HEALTHY = {
    "metadatabase": "healthy",
    "scheduler": "healthy",
    "triggerer": "healthy",
    "dag_processor": "healthy",
}
PACKAGES = ("apache-airflow-providers-standard", "freshtable-airflow")
DATABASE_ERROR: Mapping[str, Any] = {"detail": {"reason": "Database error", "message": "database is locked"}}


@dataclass
class FakeDag:
    """The DAG of a table.

    `runs` are its open runs. `busy` is the number of DELETE requests that are refused because of them.
    """

    definition: WorkflowDefinition
    shard: int
    is_paused: bool
    is_stale: bool = False
    last_run: datetime | None = None
    planned: datetime | None = None
    runs: dict[str, str] = field(default_factory=dict)
    busy: int = 0

    @property
    def grid(self) -> Grid:
        return self.definition.schedule.grid()

    def next_run(self, now: datetime) -> datetime:
        """Return the next point, which Airflow plans when it parses a DAG and after each run."""
        if self.planned is None:
            self.plan(now)
        assert self.planned is not None
        return self.planned

    def plan(self, now: datetime) -> None:
        """Plan the next point, which is the latest past point that has not run."""
        since = self.definition.schedule.since
        self.planned = max(self.grid.after(max(self.last_run or since, since)), self._passed(now))

    def _passed(self, now: datetime) -> datetime:
        point = self.grid.at_or_before(now)
        return (
            point
            if point > self.definition.schedule.since
            else self.grid.after(self.definition.schedule.since)
        )

    @property
    def summary(self) -> str:
        schedule = schedule_json(self.definition.schedule)
        interval = schedule.get("cron") or f"every {schedule['amount']} {schedule['unit']}"
        return (
            f"{interval} ({self.definition.schedule.zone}) since "
            f"{self.definition.schedule.since.isoformat(timespec='seconds')}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The answer to the next requests that contain *part* in "METHOD path".

    *location* is the target of a redirect.
    """

    part: str
    status: int
    body: Mapping[str, Any]
    location: str = ""


class FakeAirflow:
    """The state behind the API, which tests set through attributes. Thread-safe."""

    def __init__(self, clock: Clock, definitions: DefinitionStore | None) -> None:
        self.clock, self.definitions = clock, definitions
        self.prefix, self.version = "mt__", "3.3.2"
        self.users = {"svc": "s3cret-svc", "anna": "s3cret-anna"}
        self.plugin_loaded, self.packages = True, list(PACKAGES)
        self.health: dict[str, str | None] = dict(ALL_HEALTHY)
        self.heartbeats: dict[str, datetime] = {}
        self.reads_event_log = True
        # How long after a request a file is parsed. None means that the DAG processor is down.
        self.parse_after: timedelta | None = timedelta(0)
        self.broken: set[str] = set()
        self.dags: dict[str, FakeDag] = {}
        self.events: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.logins = 0
        self._failures: list[Failure] = []
        self._tokens: dict[str, str] = {}
        self._expired: set[str] = set()
        self._parsed = dict.fromkeys(range(SHARDS), "0")
        self._states: dict[int, str] = {}
        self._under_way: dict[int, tuple[str, list[WorkflowDefinition]]] = {}
        self._pending: dict[int, datetime] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude all other threads during the block."""
        with self._lock:
            yield

    # --------------------------------------------------------------------------------------- what a test does

    def fail(
        self, part: str, status: int = 500, body: Mapping[str, Any] = DATABASE_ERROR, *, times: int = 1
    ) -> None:
        """Answer the next *times* requests that contain *part* in "METHOD path" with this failure."""
        self._failures += [Failure(part=part, status=status, body=body)] * times

    def redirect(self, part: str, target: str) -> None:
        """Redirect the next request that contains *part* in "METHOD path" to *target*."""
        self._failures.append(Failure(part=part, status=302, body={}, location=target))

    def expire_tokens(self) -> None:
        """Expire all tokens issued so far."""
        self._expired |= set(self._tokens)

    def forget_tokens(self) -> None:
        """Sign tokens with another secret from now on."""
        self._tokens.clear()

    def pause_by_hand(self, dag_id: str, *, paused: bool, user: str = "anna") -> None:
        """Pause or resume a DAG in the UI."""
        with self._lock:
            self.dags[dag_id].is_paused = paused
            self._log(dag_id, user, paused)

    def begin_parse(self, workflow_id: str) -> None:
        """Start to parse a workflow's shard, with the definitions as they are now.

        The next request for a parse completes it.
        """
        shard = shard_of(workflow_id)
        self._under_way[shard] = self._shard(shard)

    def asked(self, part: str) -> int:
        """Return the number of requests that contain *part* in "METHOD path"."""
        return sum(part in request for request in self.requests)

    def run_due(self, gateway_url: str, token: str = "") -> None:
        """Run every due DAG as its task does: open a session and request the refresh."""
        with self._lock:
            self._parse_due()
            now = self.clock.now()
            due = [
                dag
                for dag in self.dags.values()
                if not (dag.is_stale or dag.is_paused) and dag.next_run(now) <= now
            ]
            for dag in due:
                dag.last_run = dag.next_run(now)
                dag.plan(now)
        with gateway_client(gateway_url, token) as gateway:
            for dag in due:
                assert dag.last_run is not None
                key = (
                    f"{dag.definition.workflow_id}/{dag.definition.name}/"
                    f"scheduled__{dag.last_run.isoformat()}/refresh/-1/0/0"
                )
                send_tick(gateway, dag.definition, dag.last_run, key)

    # ------------------------------------------------------------------------------------- what a client sees

    def planned(self, request: str) -> Failure | None:
        """Record a request, "METHOD path", and return its planned failure, if any."""
        with self._lock:
            self.requests.append(request)
            self._parse_due()
            for failure in self._failures:
                if failure.part in request:
                    self._failures.remove(failure)
                    return failure
            return None

    def log_in(self, user: str, password: str) -> str | None:
        with self._lock:
            self.logins += 1
            if self.users.get(user) != password:
                return None
            token = f"token-{next(self._numbers)}"
            self._tokens[token] = user
            return token

    def user_of(self, token: str) -> tuple[str, int, str]:
        """Return the user of a token, or an error status and message."""
        if not token:
            return "", 401, "Not authenticated"
        if token not in self._tokens:
            return "", 403, "Invalid JWT token"
        return (self._tokens[token], 200, "") if token not in self._expired else ("", 401, "Token Expired")

    def request_parse(self, shard: int) -> bool:
        """Request the parse of a shard. Return False if a parse is already pending."""
        with self._lock:
            if shard in self._under_way:
                # As in Airflow, a request during a parse of the same file is lost.
                self._end_parse(shard, *self._under_way.pop(shard))
                return True
            if shard in self._pending or self.parse_after is None:
                return False
            self._pending[shard] = self.clock.now() + self.parse_after
            self._parse_due()
            return True

    def anchor(self, shard: int) -> dict[str, Any] | None:
        """Return a shard's anchor DAG as the API shows it, or None if the bundle is missing."""
        if self.definitions is None:
            return None
        dag_id = f"{self.prefix}shard_{shard:02d}"
        names = [
            name for name in sorted(self.broken) if any(name == each.name for each in self._shard(shard)[1])
        ]
        return {
            "dag_id": dag_id,
            "description": f"Never runs. State: {self._states.get(shard, 'unknown')}",
            "is_paused": False,
            "is_stale": False,
            "next_dagrun_run_after": None,
            "timetable_summary": "never",
            "last_parsed_time": self._parsed[shard],
            "file_token": f"file-{shard}",
            "doc_md": "\n".join(f"{name}: cannot be read" for name in names),
        }

    def shown(self, dag: FakeDag) -> dict[str, Any]:
        """Return a DAG as the API shows it."""
        return {
            "dag_id": dag.definition.name,
            "is_paused": dag.is_paused,
            "is_stale": dag.is_stale,
            "next_dagrun_run_after": dag.next_run(self.clock.now()).isoformat().replace("+00:00", "Z"),
            "timetable_summary": dag.summary,
            "last_parsed_time": self._parsed[dag.shard],
            "file_token": f"file-{dag.shard}",
        }

    def patch(self, dag_id: str, paused: bool, user: str) -> None:
        self.dags[dag_id].is_paused = paused
        self._log(dag_id, user, paused)

    # ------------------------------------------------------------------------------------------------ parsing

    def parse_all(self) -> None:
        """Parse every file, as Airflow does periodically."""
        with self._lock:
            for shard in range(SHARDS):
                self._parse(shard)

    def _parse_due(self) -> None:
        for shard, at in list(self._pending.items()):
            if at <= self.clock.now():
                del self._pending[shard]
                self._parse(shard)

    def _shard(self, shard: int) -> tuple[str, list[WorkflowDefinition]]:
        return self.definitions.shard(shard) if self.definitions is not None else ("", [])

    def _parse(self, shard: int) -> None:
        self._end_parse(shard, *self._shard(shard))

    def _end_parse(self, shard: int, state: str, definitions: list[WorkflowDefinition]) -> None:
        self._parsed[shard], self._states[shard] = str(next(self._numbers)), state
        found = {each.name: each for each in definitions if each.name and each.name not in self.broken}
        for name, definition in found.items():
            known = self.dags.get(name)
            if known is None:
                self.dags[name] = FakeDag(definition=definition, shard=shard, is_paused=definition.paused)
            else:
                known.definition, known.shard, known.is_stale = definition, shard, False
                known.plan(self.clock.now())
        for name, dag in self.dags.items():
            if dag.shard == shard and name not in found:
                dag.is_stale = True

    def _log(self, dag_id: str, user: str, paused: bool) -> None:
        extra = f'{{"is_paused": {str(paused).lower()}, "method": "PATCH"}}'
        when = self.clock.now().isoformat()
        self.events.append(
            {"dag_id": dag_id, "event": "patch_dag", "owner": user, "when": when, "extra": extra}
        )
