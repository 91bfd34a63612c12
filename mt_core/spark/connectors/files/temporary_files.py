"""Temporary file tables as stream sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import quote
from mt_core.model.temporary_files import TemporaryFiles
from mt_core.spark.driver.jvm_objects import java_dataset, scala_sequence, state_of, static_member, text_map

_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_RELATION = "org.apache.spark.sql.execution.datasources.LogicalRelation"
_STREAM = "org.apache.spark.sql.execution.streaming.runtime.StreamingRelation$.MODULE$.apply"
_PATH = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """A temporary view over files, with its name as written and Spark's `relation` of the files."""

    name: str
    relation: Any = field(repr=False, compare=False)

    @property
    def stream_name(self) -> str:
        """The name of the view over its stream while a query is analysed."""
        # The hexadecimal name does not collide with users' names.
        return f"files_of_{self.name.encode().hex()}"

    def stream(self, session: SparkSession) -> DataFrame:
        """Return the rows as a stream with its watermark. Each file is read once. Raises Spark's errors."""
        relation = self.relation
        files = TemporaryFiles.from_options(_options(session, relation))
        option = static_member(session, "scala.Option.apply")
        source = static_member(session, "org.apache.spark.sql.execution.datasources.DataSource.apply")(
            session._jsparkSession,
            str(relation.fileFormat().getClass().getName()),
            scala_sequence(session, ()),
            option(relation.schema()),
            scala_sequence(session, files.partition_keys),
            option(None),
            relation.options(),
            option(None),
        )
        stream = DataFrame(java_dataset(session, static_member(session, _STREAM)(source)), session)
        # Restore the column order of the view, because a stream has its partition columns last.
        rows = stream.select(*map(quote, relation.schema().fieldNames()))
        mark = files.watermark
        return rows if mark is None else rows.withWatermark(mark.column, mark.delay)


def file_view(session: SparkSession, name: str) -> FileView | None:
    """Return the temporary view *name* if it is over files, or None."""
    view = state_of(session).catalog().getRawTempView(name)
    plan = view.get().plan() if view.isDefined() else None
    if plan is None or not plan.isDefined() or str(plan.get().getClass().getName()) != _RELATION:
        return None
    relation = plan.get().relation()
    if str(relation.getClass().getName()) != _FILES or _PATH not in _options(session, relation):
        return None
    return FileView(name=name, relation=relation)


@contextmanager
def streamed_files(session: SparkSession, views: Iterable[FileView]) -> Iterator[None]:
    """Create temporary views over the streams of *views* within the block."""
    names = []
    try:
        for view in views:
            view.stream(session).createOrReplaceTempView(view.stream_name)
            names.append(view.stream_name)
        yield
    finally:
        for name in names:
            session.catalog.dropTempView(name)


def _options(session: SparkSession, relation: Any) -> dict[str, str]:
    """Return the options of a file relation, with keys in lower case."""
    as_java = static_member(session, "scala.jdk.javaapi.CollectionConverters.asJava")
    return {key.lower(): value for key, value in text_map(session, as_java(relation.options())).items()}
