"""Savepoints: the facts that they store about their job, and the state that a new job takes from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import DefinitionInvalid
from mt_core.model.stream_plan import Start, StreamPlan
from mt_core.spark.streams.checkpoints import LAYOUT, Checkpoints
from mt_core.spark.streams.sources.order import SOURCES, order_of


def savepoint_facts(plan: StreamPlan, *, begun: bool) -> dict[str, Any]:
    """Return the facts that a savepoint stores.

    *begun* means that the rows of the starting snapshots have been written.
    """
    starts = {name: start.to_json() for name, start in plan.starts.items()}
    facts = {"starts": starts, "begun": begun}
    return facts if plan.sources is None else {**facts, SOURCES: list(plan.sources)}


def restored(
    session: SparkSession,
    savepoint: str,
    plan: StreamPlan,
    tables: Mapping[str, Any],
    *,
    keeps_state: bool,
) -> tuple[StreamPlan, Sequence[int] | None]:
    """Return *plan* with the decisions stored in a savepoint and the order of its sources.

    The order contains the position of each source in the savepoint. It is None if the positions are the same.
    *tables* are the Iceberg tables that the job reads, by name. Raises DefinitionInvalid if the job cannot
    start from the savepoint.
    """
    checkpoints = Checkpoints(session)
    facts, layout = checkpoints.facts(savepoint), checkpoints.savepoint_layout(savepoint)
    # Compare as sets: the registry does not preserve the order of names.
    if facts["starts"].keys() != plan.starts.keys():
        raise DefinitionInvalid(
            f"Savepoint {savepoint} is of a job that reads {', '.join(facts['starts'])}; "
            f"this one reads {', '.join(plan.starts)}."
        )
    if layout not in {None, LAYOUT}:
        raise DefinitionInvalid(
            f"Savepoint {savepoint} has states of operators in layout {layout}, "
            f"and this release reads layout {LAYOUT}; start the statement without it."
        )
    names = list(plan.sources or ())
    stored = facts.get(SOURCES) or order_of(checkpoints.savepoint_offsets(savepoint), names, tables)
    order = None
    if stored != names and sorted(stored) == sorted(names):
        if keeps_state or len(set(names)) < len(names):
            raise DefinitionInvalid(
                f"Savepoint {savepoint} is of a query that reads {', '.join(stored)}, "
                "and this one reads them in another order: "
                f"{', '.join(names)}. Write them in the order of the savepoint, which its state has too."
            )
        order = [stored.index(name) for name in names]
    starts = {name: Start.from_json(body) for name, body in facts["starts"].items()}
    return replace(plan, starts=starts, begun=facts["begun"]), order
