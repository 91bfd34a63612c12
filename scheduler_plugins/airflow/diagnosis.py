"""The diagnosis of an Airflow for `freshtable doctor`, with the checks of the gateway's start."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mt_core.clock import Clock
from mt_core.errors import WorkflowError
from mt_core.model.finding import Finding, clock_finding
from scheduler_plugins.airflow.client import NOT_FOUND, OK, AirflowAway, AirflowClient
from scheduler_plugins.airflow.preflight import Lack, Preflight
from scheduler_plugins.airflow.settings import PREFIX, AirflowSettings

# The timeout of a call. Calls are tried three times, and doctor must finish within its own limit.
MOST_S = 4.0
SERVICE, BUNDLE = "scheduler", "airflow"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Checks one Airflow once, without waiting and without changing anything."""

    client: AirflowClient
    preflight: Preflight
    clock: Clock

    @classmethod
    def of(cls, settings: AirflowSettings, clock: Clock) -> Diagnosis:
        """Return a diagnosis of the Airflow in *settings*, without calling it yet.

        Raises WorkflowError for a CA file that cannot be read.
        """
        settings = replace(settings, request_timeout_s=min(settings.request_timeout_s, MOST_S))
        client = AirflowClient(settings, clock)
        return cls(client, Preflight(client, settings, clock), clock)

    def findings(self) -> list[Finding]:
        """Return findings about Airflow, its clock, our plug-in and bundle in it, and its components."""
        try:
            return self._service()
        finally:
            self.client.close()

    def _service(self) -> list[Finding]:
        where = f"Airflow at {self.client.endpoint}"
        try:
            sent = self.clock.now()
            answer = self.client.get("/version", accept=(OK, NOT_FOUND))
            clock = clock_finding(where, answer.headers.get("date"), sent, self.clock.now())
            lack = self.preflight.version()
            if lack is not None:
                return [clock, self._problem(SERVICE, lack)]
            components = self._components()
            bundle = self._bundle()
        except AirflowAway as error:
            return [Finding.problem(SERVICE, str(error), "airflow api-server")]
        except WorkflowError as error:
            return [
                Finding.problem(
                    SERVICE, str(error), f"correct {PREFIX}*, or the rights of its user in Airflow"
                )
            ]
        return [
            Finding.ok(SERVICE, f"{where} answers and accepts the gateway's user"),
            *components,
            *bundle,
            clock,
        ]

    def _bundle(self) -> list[Finding]:
        lack = self.preflight.anchor()
        if lack is not None:
            return [self._problem(BUNDLE, lack)]
        return [Finding.ok(BUNDLE, "it has Freshtable's plug-in and bundle")]

    def _components(self) -> list[Finding]:
        lack, health = self.preflight.components()
        if lack is not None:
            return [self._problem(BUNDLE, lack)]
        if not health.trouble:
            return []
        since = f" (since {health.since:%Y-%m-%d %H:%M:%S} UTC)" if health.since is not None else ""
        return [Finding.note(BUNDLE, f"{health.trouble}{since}")]

    def _problem(self, subject: str, lack: Lack) -> Finding:
        return Finding.problem(subject, f"Airflow at {self.client.endpoint} {lack.text}", lack.way_out)
