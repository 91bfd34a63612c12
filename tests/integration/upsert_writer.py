"""A writer that commits as Flink does in upsert mode: rows that come, beside equality deletes of those
before, by their key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.iceberg.written_files import FileWriter, Values, collected
from tests.integration.refresh_world import RefreshWorld


class UpsertWriter:
    """Writes to a source of a key and a value, in one partition or one for each key."""

    def __init__(self, world: RefreshWorld, name: str, *, key: str) -> None:
        self.world, self.name, self.key = world, f"lake.{world.namespace}.{name}", key

    def commit(self, values: Mapping[str, int | None]) -> None:
        """Make one commit, as one checkpoint does: each key has this value from now on,
        or no row if it is None.
        """
        load = static_member(self.world.session, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")
        table = load(self.world.session._jsparkSession, self.name)
        writer, delta = FileWriter.of(self.world.session, table), table.newRowDelta()
        for partition, keys in self._parts(writer, values).items():
            rows = [(key, values[key]) for key in keys if values[key] is not None]
            if rows:
                delta.addRows(writer.data_file(self._rows(rows), partition))
            deletes = collected(
                self.world.session.createDataFrame([(key,) for key in keys], f"{self.key} STRING")
            )
            delta.addDeletes(writer.equality_deletes(deletes, [self.key], partition))
        delta.commit()

    def deletes(self) -> int:
        """Return how many equality deletes the table has."""
        deletes = f"SELECT coalesce(sum(record_count), 0) FROM {self.name}.delete_files WHERE content = 2"
        return int(str(self.world.plain(deletes)[0][0]))

    def _parts(self, writer: FileWriter, values: Mapping[str, Any]) -> dict[Values, list[str]]:
        return {(key,): [key] for key in values} if writer.partition else {(): list(values)}

    def _rows(self, rows: Sequence[tuple[str, Any]]) -> Any:
        return collected(self.world.session.createDataFrame(rows, self.world.session.table(self.name).schema))
