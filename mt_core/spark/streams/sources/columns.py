"""The columns that a running stream reads, and the check that its sources still have them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mt_core.base.identifiers import quote
from mt_core.errors import SourcesChanged
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import java_items
from mt_core.spark.streams.sources.streamed_text import StreamSource


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns of one schema version by name.

    The text of a column includes its field id, so that a replaced column differs.
    """

    schema_id: int
    texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns of *sources* when this object is created, which must be before Spark plans the stream.

    Spark reads these columns by Iceberg's field ids, even if other columns have their names later.
    """

    sources: Iterable[StreamSource]
    _read: list[tuple[StreamSource, _Columns]] = field(init=False, default_factory=list, repr=False)

    def __post_init__(self) -> None:
        for source in self.sources:
            if source.table is not None:
                source.table.refresh()
                self._read.append((source, _columns(source.table.schema())))

    def check(self) -> None:
        """Raise SourcesChanged if one of these columns was dropped or replaced.

        A replaced column has the same name and a different field id or type.
        """
        for source, read in self._read:
            with suppress(*SPARK_ERRORS):
                # The stream itself reports a table that was dropped.
                source.table.refresh()
            schema = source.table.schema()
            if int(schema.schemaId()) == read.schema_id:
                continue
            now = _columns(schema).texts
            gone = [quote(name) for name, text in read.texts.items() if now.get(name) != text]
            if gone:
                raise SourcesChanged(
                    f"{source.name} was altered while it was read: column {', '.join(gone)} was dropped, "
                    "renamed or changed."
                )


def _columns(schema: Any) -> _Columns:
    texts = {
        str(each.name()): f"{each.fieldId()} {each.type().toString()}"
        for each in java_items(schema.columns())
    }
    return _Columns(schema_id=int(schema.schemaId()), texts=texts)
