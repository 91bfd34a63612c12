"""The files that a stream needs at its start, besides its tables. They may be missing on another machine."""

from __future__ import annotations

from collections.abc import Mapping

from mt_core.base.identifiers import display_name
from mt_core.model.stream import StreamDefinition, TableName
from mt_core.spark.connectors.stream_errors import StreamFilesMissing
from mt_core.spark.files.gateway_files import local_path
from mt_core.spark.streams.checkpoints import Checkpoints
from mt_core.spark.streams.position import FIRST_ROWS


def check_files(checkpoints: Checkpoints, definition: StreamDefinition) -> None:
    """Raise StreamFilesMissing if the job's checkpoint or one of its jars does not exist."""
    if definition.planned.has_checkpoint and not checkpoints.exists(definition.checkpoint):
        raise StreamFilesMissing.of(
            definition, f"There is no checkpoint {definition.checkpoint}, from which the job continues."
        )
    for jar in definition.jars:
        path = local_path(jar)
        if path is not None and not path.is_file():
            raise StreamFilesMissing.of(definition, f"There is no jar {jar}, which the job was created with.")


def check_batches(
    definition: StreamDefinition, began: int | None, batches: Mapping[TableName, int | None]
) -> None:
    """Raise StreamFilesMissing if a table has a later batch than the last one that the checkpoint *began*.

    Without this error, the stream would use the number of that batch again. *batches* contains the last batch
    of each table.
    """
    for table, batch in batches.items():
        last_batch = FIRST_ROWS if batch is None else batch
        if last_batch > (FIRST_ROWS if began is None else began):
            raise StreamFilesMissing.of(
                definition,
                f"{display_name(table)} has batch {last_batch}, which checkpoint {definition.checkpoint} "
                "does not have: it was deleted or replaced.",
            )
