"""Reading versions: the rows of each place where a query reads a source, at pinned versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import string_literal
from mt_core.errors import SourcesChanged
from mt_core.incremental.delta import Reading, readings
from mt_core.model.storage import EMPTY
from mt_core.spark.queries.lineage import Lineage
from mt_core.spark.queries.query_shapes import pieces_of
from mt_core.spark.queries.source_relations import is_query, relation_at
from mt_core.spark.queries.source_versions import agrees
from mt_core.tables.engine import SourceVector


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingVersions:
    """The readings of a query at *versions*, by source name, with the current columns of the sources."""

    session: SparkSession
    readings: tuple[Reading, ...]
    versions: Mapping[str, str]
    relations: Mapping[tuple[str, str], str]

    @classmethod
    def at(cls, session: SparkSession, lineage: Lineage, versions: Mapping[str, str]) -> Self:
        """Return the readings at *versions*. Raises SourcesChanged if the columns then are not known."""
        return cls(
            session=session,
            readings=tuple(readings(pieces_of(lineage))),
            versions=versions,
            relations=relations_at(session, lineage, [versions]),
        )

    def rows(self, number: int) -> DataFrame:
        """Return the rows of the reading with the *number*."""
        reading = self.readings[number]
        version = self.versions[reading.source]
        relation = self.relations.get((reading.source, version), f"{reading.name} VERSION AS OF {version}")
        return self.session.sql(f"SELECT * FROM {relation}")

    def appended(self, number: int, since: Mapping[str, str]) -> DataFrame:
        """Return the rows of a reading that were appended after the versions *since*."""
        reading = self.readings[number]
        if since[reading.source] == EMPTY:
            return self.rows(number)
        old, new = (string_literal(versions[reading.source]) for versions in (since, self.versions))
        options = f"'start-snapshot-id' = {old}, 'end-snapshot-id' = {new}"
        return self.session.sql(f"SELECT * FROM {reading.name} WITH ({options})")


def relations_at(
    session: SparkSession, lineage: Lineage, vectors: Collection[Mapping[str, str]]
) -> dict[tuple[str, str], str]:
    """Return subqueries for source versions that `VERSION AS OF` cannot read with the current columns.

    Raises SourcesChanged if the columns of a version are not known.
    """
    relations: dict[tuple[str, str], str] = {}
    with lineage.lock:
        for source in lineage.sources:
            for version in {vector.get(source.name) for vector in vectors} - {None}:
                relation = relation_at(session, lineage, source, str(version))
                if relation is None:
                    raise SourcesChanged(
                        f"The columns of {source.name} in snapshot {version} are not known; run it again."
                    )
                if is_query(relation):
                    relations[source.name, str(version)] = relation
    return relations


def check_unchanged(lineage: Lineage, vector: SourceVector) -> None:
    """Raise SourcesChanged if *lineage* is not that of the query at *vector*."""
    if not agrees(lineage, {each.name: each.version or {} for each in vector.sources}):
        raise SourcesChanged(
            "A view, function or table of the query changed while the refresh was starting; run it again."
        )
