"""The preflight check: whether an Airflow has everything that the gateway needs, and exactly what it lacks.

The gateway depends on parts of Airflow that it cannot install: a version with `/api/v2`, our package in each
component, our bundle in the DAG processor's configuration, and running components. Any of these may be
missing, and the symptom (a DAG that does not appear) is always the same. So the checks proceed from the
outside in, and each returns a `Lack` with the command that fixes it. The anchor DAG of shard 0 exists
whenever our bundle is read, so a single GET shows whether package, bundle and DAG processor work together. An
Airflow that is starting lacks parts that will appear later: `check` waits for these up to `open_timeout_s`,
but only if Airflow responds. If Airflow does not respond, this is only a warning, because the gateway must be
able to start without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mt_core.clock import Clock
from mt_core.errors import WorkflowError
from mt_core.workflow.scheduler import SchedulerHealth
from scheduler_plugins.airflow.client import (
    FORBIDDEN,
    NOT_FOUND,
    OK,
    SERVER_ERROR,
    AirflowAway,
    AirflowClient,
)
from scheduler_plugins.airflow.names import anchor_of
from scheduler_plugins.airflow.settings import DAG_ID_PREFIX, PREFIX, AirflowSettings

LOWEST_VERSION = (3, 3)
PACKAGE = "freshtable-airflow"
PLUGIN = "freshtable"
AGAIN_S = 1.0
INSTALL = "pip install --no-deps ./dags, in a checkout of Freshtable and where the components of Airflow run"
COMPONENTS = ("scheduler", "dag_processor", "triggerer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A part that Airflow lacks, and the command to fix this; *passing* if Airflow may just be starting."""

    text: str
    way_out: str
    passing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component in Airflow's health report.

    `status` is "" if it has never run. `heartbeat` is the time of its latest heartbeat.
    """

    name: str
    status: str
    heartbeat: datetime | None

    @classmethod
    def of(cls, name: str, body: dict[str, Any]) -> Component:
        facts = body.get(name) or {}
        beat = facts.get(f"latest_{name}_heartbeat")
        return cls(
            name=name.replace("_", "-"),
            status=facts.get("status") or "",
            heartbeat=datetime.fromisoformat(beat).astimezone(UTC) if beat else None,
        )


@dataclass(frozen=True, slots=True)
class Preflight:
    """Checks one Airflow."""

    client: AirflowClient
    settings: AirflowSettings
    clock: Clock

    def check(self) -> str:
        """Return a warning if Airflow does not respond or a component is unhealthy, or else "".

        Waits for parts that a starting Airflow may still lack, then raises WorkflowError naming what must be
        fixed.
        """
        until = self.clock.elapsed() + timedelta(seconds=self.settings.open_timeout_s)
        while True:
            warning = ""
            try:
                lack = self.version() or self.anchor()
                if lack is None:
                    lack, health = self.components()
                    warning = health.trouble
            except AirflowAway as error:
                return str(error)
            if lack is None:
                return warning
            if not lack.passing or self.clock.elapsed() >= until:
                raise WorkflowError(f"Airflow at {self.client.endpoint} {lack.text}.")
            self.client.pause(AGAIN_S)

    def version(self) -> Lack | None:
        """Return a Lack if Airflow's version is too old, or None."""
        answer = self.client.get("/version", accept=(OK, NOT_FOUND))
        text, numbers = "without /api/v2", tuple[int, ...]()
        if answer.status_code == OK:
            text = self.client.read(answer, lambda body: str(body.get("version", "")))
            numbers = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
        if numbers >= LOWEST_VERSION:
            return None
        needed = ".".join(str(number) for number in LOWEST_VERSION)
        return Lack(
            text=(
                f"is of version {text}; {needed} or newer is needed: "
                "older versions cannot cancel the refresh of a task"
            ),
            way_out=f"pip install 'apache-airflow>={needed}'",
            passing=False,
        )

    def anchor(self) -> Lack | None:
        """Return what prevents Airflow from showing the anchor DAG of our bundle, or None."""
        dag_id = anchor_of(self.settings.dag_id_prefix, 0)
        answer = self.client.get(f"/dags/{dag_id}", accept=(OK, NOT_FOUND, SERVER_ERROR))
        if answer.status_code == SERVER_ERROR:
            # If listing DAGs also fails, the plug-in is not the cause, and this call raises the error.
            self.client.get("/dags", {"limit": 1})
            return Lack(
                text=(
                    f"has our DAGs, but its api-server lacks the plug-in {PLUGIN} to show them: "
                    f"install {PACKAGE} where the api-server runs, and restart it"
                ),
                way_out=INSTALL,
            )
        if answer.status_code == OK and not self.client.read(answer, lambda dag: bool(dag["is_stale"])):
            return None
        if answer.status_code == OK:
            return Lack(
                text=(
                    f"has stopped reading our bundle (DAG {dag_id} is stale): make sure that its "
                    "DAG processor runs, and that [dag_processor] dag_bundle_config_list "
                    "there contains the bundle"
                ),
                way_out="airflow dag-processor",
            )
        if PACKAGE not in self._providers():
            return Lack(
                text=(
                    f"does not have the package {PACKAGE}: install it where its api-server, scheduler, "
                    "DAG processor, triggerer and workers run (from a checkout of Freshtable: "
                    "pip install --no-deps ./dags), configure its bundle and restart them; "
                    "see docs/airflow.md for each step"
                ),
                way_out=INSTALL,
            )
        return Lack(
            text=f"has the package {PACKAGE}, but not the DAG {dag_id} of its bundle: add the bundle to "
            "[dag_processor] dag_bundle_config_list as "
            '{"name": "materialized-tables", "classpath": "freshtable_airflow.bundle.GatewayDagBundle", '
            '"kwargs": {"gateway": "<the URL of this gateway>"}}, make sure that its dag_id_prefix '
            f"is the same as {PREFIX}{DAG_ID_PREFIX.key} ({self.settings.dag_id_prefix!r}), "
            "and that the DAG processor runs",
            way_out=(
                "export AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=… (docs/airflow.md, step 3), "
                "and restart Airflow"
            ),
        )

    def _providers(self) -> list[str]:
        """Return the installed provider packages.

        If listing them is forbidden, our package is assumed to be installed and is returned alone.
        """
        packages: list[str] = []
        while True:
            answer = self.client.get(
                "/providers", {"limit": 100, "offset": len(packages)}, accept=(OK, FORBIDDEN)
            )
            if answer.status_code == FORBIDDEN:
                return [PACKAGE]
            page, total = self.client.read(
                answer,
                lambda body: (
                    [str(each.get("package_name")) for each in body["providers"]],
                    int(body["total_entries"]),
                ),
            )
            packages += page
            if not page or len(packages) >= total:
                return packages

    def components(self) -> tuple[Lack | None, SchedulerHealth]:
        """Return the Lack of a component that has never run and the health of the components.

        Only components that start or watch refreshes are checked.
        """
        components = self.client.read(
            self.client.get("/monitor/health"), lambda body: [Component.of(name, body) for name in COMPONENTS]
        )
        where = f"Airflow at {self.client.endpoint}"
        for absent in (each.name for each in components if not each.status):
            lack = Lack(
                text=f"runs no {absent}; start one with `airflow {absent}`", way_out=f"airflow {absent}"
            )
            return lack, SchedulerHealth(trouble=f"{where} {lack.text}")
        ill = [each for each in components if each.status != "healthy"]
        if not ill:
            return None, SchedulerHealth()
        names, commands = (
            " and ".join(each.name for each in ill),
            " and ".join(f"`airflow {each.name}`" for each in ill),
        )
        trouble = (
            f"{where} runs without a healthy {names}: DAGs and refreshes may be late; "
            f"make sure that {commands} runs"
        )
        return None, SchedulerHealth(
            trouble=trouble, since=min((each.heartbeat for each in ill if each.heartbeat), default=None)
        )
