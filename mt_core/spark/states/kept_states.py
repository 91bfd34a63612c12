"""Kept states: the groups of the stages of a query, with their sums and counts, between two refreshes.

A run writes the new states before it publishes, and its publish says which they are. Tiny states are texts in
a property of the materialized table, which the commit of the publish sets (`tiny_states`). All others are
snapshots of state tables (`state_tables`), which the summary of the published snapshot names. A state to
which neither refers does not exist: a run that fails leaves nothing that another run reads. So no commit over
several tables is needed, and a rollback of the materialized table restores the states that it names. A run
that does not find a state computes all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from mt_core.model.storage import Snapshot, StorageMetadata, state_summary, states_property, tiny_states
from mt_core.model.table import TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.iceberg.computed_rows import ComputedRows
from mt_core.spark.iceberg.metadata import ancestors
from mt_core.spark.states.state_tables import StateTable
from mt_core.spark.states.tiny_states import fitting, tiny_rows, tiny_text


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The new state of a stage: all its groups (`whole`), folded.

    `added` are the partial sums that, with those of the kept state, give the same groups; None if the new
    state does not follow from the kept one, as after a recomputation. `whole` may be a DataFrame that has not
    been computed: it is computed only if it is written. Local rows may become a tiny state.
    """

    whole: DataFrame | ComputedRows
    added: ComputedRows | None = None

    @property
    def schema(self) -> StructType:
        """The columns of the partial sums."""
        return self.whole.schema


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenStates:
    """States that exist once a publish refers to them.

    `summary` are entries of the summary of the snapshot to publish, and `text` is the property to set
    (`Staged.states`).
    """

    summary: Mapping[str, str]
    text: str


class KeptStates:
    """The states of the materialized *table* at *base*, the snapshot of main that describes its rows.

    *base* is None if no state is used, as by a run with another definition. *metadata* is the version of the
    table that the run has read.
    """

    def __init__(
        self,
        session: SparkSession,
        spark: SparkContexts,
        table: TableIdentifier,
        metadata: StorageMetadata,
        base: Snapshot | None,
    ) -> None:
        self._session, self._spark, self._table, self._metadata = session, spark, table, metadata
        assert metadata.table_id is not None, "only materialized tables have states"
        self._table_id = metadata.table_id
        self._texts = {} if base is None else tiny_states(metadata.properties, base)
        self._snapshots = {} if base is None else base.states

    def read(self, stage: str, schema: StructType) -> ComputedRows | None:
        """Return the partial sums of a *stage*, which have to be folded; None if there is no such state."""
        if stage in self._texts:
            return tiny_rows(self._session, schema, self._texts[stage])
        if stage not in self._snapshots:
            return None
        rows = self._state_table(stage, schema).read(self._session, self._snapshots[stage])
        return None if rows is None else ComputedRows.of_frame(rows)

    def write(self, publish: str, changes: Mapping[str, StateChange | None]) -> WrittenStates:
        """Write the states of all stages of the query for the publish with the name *publish*.

        A stage whose change is None keeps its state. Raises StateLost if a state to which rows are added has
        been lost; the run then computes all rows.
        """
        carried = {
            stage: text for stage, text in self._texts.items() if stage in changes and changes[stage] is None
        }
        texts = dict(carried)
        for stage, change in changes.items():
            if change is not None and isinstance(change.whole, ComputedRows):
                text = tiny_text(change.whole)
                if text is not None:
                    texts[stage] = text
        tiny = fitting(texts, carried)
        snapshots = dict[str, str]()
        for stage in sorted(changes.keys() - tiny):
            change = changes[stage]
            snapshots[stage] = self._snapshots[stage] if change is None else self._written(stage, change)
        return WrittenStates(
            summary=state_summary(snapshots),
            text=states_property(publish, {stage: texts[stage] for stage in sorted(tiny)}),
        )

    def _written(self, stage: str, change: StateChange) -> str:
        """Write a state into its table and return the snapshot."""
        table, kept = self._state_table(stage, change.schema), self._snapshots.get(stage)
        snapshot = None
        if change.added is not None and kept is not None:
            snapshot = table.append(self._session, kept, change.added)
        if snapshot is not None:
            return snapshot
        return table.overwrite(self._session, change.whole, partial(self._last_named, stage))

    def _last_named(self, stage: str) -> str | None:
        """Return the snapshot of a state that the history of main names last, whatever rows main has."""
        if stage in self._snapshots:
            return self._snapshots[stage]
        history = ancestors(self._session, self._metadata)
        return next((each.states[stage] for each in history if stage in each.states), None)

    def _state_table(self, stage: str, schema: StructType) -> StateTable:
        return StateTable(self._spark, self._table, self._table_id, stage, schema)
