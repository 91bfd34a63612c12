"""Upsert materialization: determines which row is current for each key of a table that a stream writes.

The rows that the stream has emitted for a key are retained. When the latest row is retracted, the previous
one becomes current.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid
from mt_core.model.stream import TableName
from mt_core.plans.operators import OperatorState
from mt_core.plans.policies import TtlPolicy, operator_policy
from mt_core.plans.states import planned_policy
from mt_core.sessions.properties.stream_properties import (
    MATERIALIZE_KEY,
    STATE_TTL_KEY,
    UpsertMaterialize,
    state_ttl_of,
    upsert_materialize_of,
)
from mt_core.spark.connectors.changelog import Changelog, is_changelog
from mt_core.spark.driver.jvm_objects import java_dataset, scala_items, static_member
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.stateless import expression_id
from mt_core.spark.streams.query import StreamedQuery

STATE = "sinkMaterializeState"
_NEED = "The table with a key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedInsert:
    """An INSERT into `columns` of a table with the primary key `keys`, which is empty if there is none."""

    table: TableName
    columns: Sequence[str]
    keys: Sequence[str]


def materialized_key(insert: KeyedInsert, rows: Changelog, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the key columns if the rows of an INSERT must be materialized, or else an empty tuple.

    *settings* are the properties of the session. Raises DefinitionInvalid if the INSERT does not set a key
    column.
    """
    given = {name.lower() for name in insert.columns}
    missing = [key for key in insert.keys if key.lower() not in given]
    if missing:
        raise no_value_of_key(display_name(insert.table), missing)
    choice = upsert_materialize_of(settings.get(MATERIALIZE_KEY, "").strip())
    return tuple(insert.keys) if _is_needed(insert, rows, choice) else ()


def no_value_of_key(table: str, missing: Sequence[str]) -> DefinitionInvalid:
    """Return the error for an INSERT that does not set the *missing* primary key columns of *table*."""
    return DefinitionInvalid(
        f"INSERT INTO {table} gives no value for {', '.join(missing)} of its PRIMARY KEY; "
        "name all columns of the key."
    )


def _is_needed(insert: KeyedInsert, rows: Changelog, choice: UpsertMaterialize) -> bool:
    """Return whether rows must be materialized.

    This is not necessary if the key columns identify a row of the query, because each update then retracts
    the previous row.
    """
    if not insert.keys or choice is UpsertMaterialize.NONE:
        return False
    if choice is UpsertMaterialize.FORCE:
        return True
    key = {name.lower() for name in insert.keys}
    output = [expression_id(each) for each in scala_items(rows.plan.output())]
    given = {number for number, name in zip(output, insert.columns, strict=False) if name.lower() in key}
    return rows.updates and not any(unique <= given for unique in rows.unique)


def states_of(key: Sequence[str], query: StreamedQuery) -> tuple[OperatorState, ...]:
    """Return the state in which a query's rows are materialized by *key*; empty without a key."""
    return (OperatorState.of(0, STATE, policy_of(query)),) if key else ()


def policy_of(query: StreamedQuery) -> TtlPolicy:
    """Return the TTL policy of a query's materialized rows.

    The policy comes from the compiled plan if there is one, and from the session if not.
    """
    if query.ttls:
        # The sink is the last operator of a plan.
        return planned_policy(query.ttls[-1][0])
    return operator_policy(state_ttl_of(query.settings.get(STATE_TTL_KEY, "").strip()))


def materialized(rows: DataFrame, keys: Sequence[str], policy: TtlPolicy) -> DataFrame:
    """Return a changelog with the current row for each of the *keys*: the last one not retracted in *rows*.

    Entries expire by *policy*.
    """
    session, plan = rows.sparkSession, rows._jdf.queryExecution().analyzed()
    if not is_changelog(rows):
        plan = java_operator(session, "Changelogs").added(plan)
    by_name = {str(each.name()).lower(): each for each in scala_items(plan.output())}
    attributes, no_order = (static_member(session, "java.util.ArrayList")() for _ in range(2))
    for key in keys:
        attributes.add(by_name[key.lower()])
    latest = java_operator(session, "Ranking")(no_order, True, 1, 1)
    state = java_state(session, OperatorState.of(0, STATE, policy), plan, _NEED)
    last_rows = java_operator(session, "ChangedRanks").of(plan, attributes, latest, None, state)
    return DataFrame(java_dataset(session, last_rows), session)
