"""Facts about tables as the overview gives them. Tests change the fields that matter to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mt_core.model.partition import WHOLE
from mt_core.model.table import RefreshMode, RefreshStatus, TableIdentifier
from mt_core.tables.overview.facts import Read, TableFacts
from mt_core.tables.overview.lateness import State
from tests.support.registry_facts import HOUR, NOON


def table_named(name: str, namespace: str = "shop") -> TableIdentifier:
    return TableIdentifier("lake", (namespace,), name)


def table_facts(name: str = "daily", *reads: str, namespace: str = "shop", **changes: Any) -> TableFacts:
    """Return the facts about the hourly table `lake.shop.<name>`, which read its sources at NOON.

    *reads* are tables of the same namespace.
    """
    facts = TableFacts(
        table_id=f"id-{name}",
        identifier=table_named(name, namespace),
        mode=RefreshMode.FULL,
        status=RefreshStatus.ACTIVATED,
        freshness="1 hour",
        freshness_s=HOUR.total_seconds(),
        cadence="INTERVAL '1' HOUR",
        zone="UTC",
        state=State.OK,
        shows=NOON,
        shows_by=None,
        late_at=NOON + 2 * HOUR,
        silent_at=None,
        inherited=False,
        fault=None,
        below=None,
        because="",
        doubt=None,
        last=None,
        refreshed_at=NOON,
        only=WHOLE,
        next_run=NOON + HOUR,
        running=False,
        queued=0,
        reads=tuple(Read(name=str(table_named(each, namespace)), kind="table") for each in reads),
        status_by="anna",
        status_reason=None,
        suspended_by=None,
        status_at=NOON,
        created_at=NOON,
    )
    return replace(facts, **changes)
