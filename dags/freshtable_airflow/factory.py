"""The DAG factory: creates one DAG for each workflow, and the anchor DAG of each shard."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from airflow.sdk import DAG, Asset, Param

from freshtable_airflow.definition import Workflow
from freshtable_airflow.hook import DEFAULT_CONNECTION
from freshtable_airflow.operator import FORCE, RefreshWorkflowOperator
from freshtable_airflow.timetable import GridTimetable

TABLE_TAGS = frozenset({"freshtable", "materialized-table"})
ANCHOR_TAG = "freshtable-shard"
# Airflow sorts its list by display name; this prefix sorts anchors after tables.
ANCHORS_LAST = "zz_"
TASK_ID = "refresh"
DEFAULT_PREFIX = "mt__"
# The delays are half a minute, two minutes and eight minutes: together longer than a restart of a gateway.
RETRIES = 3
RETRY_DELAY = timedelta(seconds=30)
RETRY_DELAY_GROWTH = 4.0
LONGEST_RETRY_DELAY = timedelta(minutes=10)
FORCE_HELP = (
    "Refresh even if no source has changed since the last time. "
    'In a backfill: the configuration {"force": true}.'
)
PERIOD_HELP = (
    "A run refreshes the period that ends at its date: of a table by day, "
    "the run (or backfill) of the 19th at 00:00 refreshes the partition of the 18th. "
    "Unchanged data is skipped, unless the run is triggered with *force*."
)


@dataclass(frozen=True)
class DagSettings:
    """The settings that all DAGs of a gateway share."""

    dag_id_prefix: str = DEFAULT_PREFIX
    freshtable_conn_id: str = DEFAULT_CONNECTION


def dag_of(body: Mapping[str, Any], settings: DagSettings) -> DAG:
    """Return the DAG of a served definition.

    Any error in the definition is raised here, not later, when Airflow stores the DAGs of the file. The DAG
    has no start date: with one, Airflow would immediately run a past schedule time, or an earlier backfill
    would do nothing.
    """
    workflow = Workflow.of(body)
    dag = DAG(
        workflow.name,
        # The DAG id, but with the characters of the table's name that an id must not contain.
        dag_display_name=f"{settings.dag_id_prefix}{workflow.identifier}",
        description=workflow.description or None,
        schedule=workflow.timetable,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=workflow.paused,
        tags=TABLE_TAGS,
        params={FORCE: Param(default=False, type="boolean", title="Force", description=FORCE_HELP)},
        doc_md=_documentation(workflow),
        # A DAG that registers itself would exist even if a later step fails.
        auto_register=False,
        # The task reads the table's current definition, so an older version of the file is useless.
        disable_bundle_versioning=True,
    )
    dag.add_task(_refresh_task(workflow, settings))
    dag.timetable.validate()
    dag.validate()
    return dag


def anchor_of(number: int, settings: DagSettings, problems: Sequence[str], *, state: str = "") -> DAG:
    """Return a shard's anchor, a DAG that always exists and never runs.

    The gateway finds the file by this DAG. Its documentation shows which definitions of the shard are broken,
    and whether the gateway is reachable. It uses one of this package's timetables: an api-server without the
    plug-in cannot show it, which the gateway detects at startup. The *state* in its description tells the
    gateway which changes Airflow has parsed. The time of a parse does not, because the parse may have begun
    before the change.
    """
    lines = "\n".join(f"- {problem}" for problem in problems)
    dag_id = f"{settings.dag_id_prefix}shard_{number:02d}"
    return DAG(
        dag_id,
        dag_display_name=ANCHORS_LAST + dag_id,
        description=f"Placeholder for materialized tables; it never runs. State: {state or 'unknown'}",
        schedule=GridTimetable(1, "DAY"),
        catchup=False,
        is_paused_upon_creation=True,
        tags={ANCHOR_TAG},
        doc_md=f"Problems with the DAGs of this shard's materialized tables:\n\n{lines}"
        if problems
        else None,
        auto_register=False,
        disable_bundle_versioning=True,
    )


def _refresh_task(workflow: Workflow, settings: DagSettings) -> RefreshWorkflowOperator:
    uri = "freshtable://" + "/".join(quote(part, safe="") for part in workflow.identifier.split("."))
    return RefreshWorkflowOperator(
        task_id=TASK_ID,
        table=workflow.identifier,
        workflow_id=workflow.workflow_id,
        zone=workflow.zone,
        init_config=workflow.init_config,
        execution_config=workflow.execution_config,
        dynamic_options=workflow.dynamic_options,
        details_url=workflow.details_url,
        freshtable_conn_id=settings.freshtable_conn_id,
        retries=RETRIES,
        retry_delay=RETRY_DELAY,
        retry_exponential_backoff=RETRY_DELAY_GROWTH,
        max_retry_delay=LONGEST_RETRY_DELAY,
        outlets=[Asset(name=workflow.identifier, uri=uri)],
    )


def _documentation(workflow: Workflow) -> str:
    parts = [f"Materialized table `{workflow.identifier}`, {workflow.cadence} in {workflow.zone}."]
    if workflow.definition:
        # The statement must not be able to close the code fence.
        longest = max((len(run) for run in re.findall("~+", workflow.definition)), default=0)
        fence = "~" * max(4, longest + 1)
        parts.append(f"{fence}sql\n{workflow.definition}\n{fence}")
    parts.append(PERIOD_HELP)
    if workflow.details_url:
        parts.append(f"[This table at the gateway]({workflow.details_url})")
    return "\n\n".join(parts)
