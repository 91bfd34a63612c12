"""The rows of a stream's members, with the columns of their queries or of the tables that they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit, struct

from mt_core.base.identifiers import quote, sql_name
from mt_core.errors import Unsupported
from mt_core.model.stream import TableName
from mt_core.model.stream_plan import MemberPlan
from mt_core.plans.operators import Operator, RowKind
from mt_core.spark.connectors.changelog import ROW_KIND, Changelog, is_changelog
from mt_core.spark.streams.materialization import materialized, policy_of, states_of
from mt_core.spark.streams.operators.operator_nodes import sink_of
from mt_core.spark.streams.query import MemberQuery

_MEMBER = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRows:
    """The rows of the queries of *members*, each with its plan in *plans*."""

    members: Sequence[MemberQuery] = ()
    plans: Sequence[MemberPlan] = ()

    def sinks(self, changelogs: Sequence[Changelog]) -> list[Operator]:
        """Return the sink operator of each member, given the *changelogs* of the members' queries."""
        return [
            sink_of(member.insert.table, changelog.operator, states_of(plan.materialized, member))
            for member, changelog, plan in zip(self.members, changelogs, self.plans, strict=True)
        ]

    def streaming(self, changelogs: Sequence[Changelog]) -> list[DataFrame]:
        """Return the stream of each member, given the *changelogs* of the members' queries."""
        frames = self._named(
            [member.stream_of(changelog) for member, changelog in zip(self.members, changelogs, strict=True)]
        )
        return [
            materialized(frame, plan.materialized, policy_of(member)) if plan.materialized else frame
            for frame, plan, member in zip(frames, self.plans, self.members, strict=True)
        ]

    def pinned(self, snapshots: Mapping[str, str]) -> list[DataFrame]:
        """Return the rows of each member at *snapshots* of its sources."""
        return self._named([member.pinned(snapshots) for member in self.members])

    def of_batch(self, rows: DataFrame) -> list[DataFrame]:
        """Return the rows of each member in one batch of the stream that `packed` returned."""
        if len(self.plans) == 1:
            return [rows]
        return [_unpacked(rows, position, plan.columns) for position, plan in enumerate(self.plans)]

    def of_table(self, table: TableName, frames: Sequence[DataFrame]) -> DataFrame:
        """Return the rows of all members that write *table*; *frames* has one frame per member."""
        mine = [
            frame for frame, member in zip(frames, self.members, strict=True) if member.insert.table == table
        ]
        if any(map(is_changelog, mine)):
            added = lit(RowKind.INSERT.code).cast("tinyint")
            mine = [frame if is_changelog(frame) else frame.withColumn(ROW_KIND, added) for frame in mine]
        if any(frame.dtypes != mine[0].dtypes for frame in mine):
            # UNION would widen DECIMAL and DOUBLE to DOUBLE, regardless of the type in the table.
            mine = [_stored(frame, table) for frame in mine]
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), mine)
        if ROW_KIND not in rows.columns or is_changelog(rows):
            return rows
        return rows.select(*(quote(name) for name in rows.columns if name != ROW_KIND), ROW_KIND)

    def _named(self, frames: Sequence[DataFrame]) -> list[DataFrame]:
        """Return *frames*, one per member, with the columns that their queries had at the job's creation.

        The columns are named as in the tables that the members write.
        """
        return [
            _renamed(_selected(frame, _with_kind(frame, plan.given)), _with_kind(frame, plan.columns))
            for frame, plan in zip(frames, self.plans, strict=True)
        ]


def packed(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all *frames* as one stream.

    Several frames are combined into one with a frame number and one struct column per frame.
    """
    if len(frames) == 1:
        return frames[0]
    frames = [frame.toDF(*(f"_{position}" for position in range(len(frame.columns)))) for frame in frames]
    structs = [struct(*map(col, frame.columns)) for frame in frames]
    types = [
        frame.select(each.alias("row")).schema.fields[0].dataType
        for frame, each in zip(frames, structs, strict=True)
    ]
    whole = [
        frame.select(
            lit(number).alias(_MEMBER),
            *(
                (structs[each] if each == number else lit(None).cast(types[each])).alias(f"_{each}")
                for each in range(len(frames))
            ),
        )
        for number, frame in enumerate(frames)
    ]
    return reduce(DataFrame.unionAll, whole)


def _unpacked(rows: DataFrame, number: int, columns: Sequence[str]) -> DataFrame:
    """Return the rows of frame *number* in a `packed` stream, with the names *columns*."""
    mine = rows.where(col(_MEMBER) == number)
    has_kind = len(mine.select(f"_{number}.*").columns) > len(columns)
    names = [*columns, ROW_KIND] if has_kind else columns
    return mine.select(*(col(f"_{number}._{position}").alias(name) for position, name in enumerate(names)))


def _with_kind(frame: DataFrame, columns: Sequence[str]) -> Sequence[str]:
    """Return *columns*, followed by the row kind if *frame* has one."""
    return [*columns, ROW_KIND] if is_changelog(frame) else columns


def _selected(frame: DataFrame, given: Sequence[str]) -> DataFrame:
    """Return *frame* with the columns that its query had at creation: a * selects others once its table is
    altered.
    """
    if frame.columns == list(given):
        return frame
    present = {name.lower() for name in frame.columns}
    if len(present) < len(frame.columns) or not {name.lower() for name in given} <= present:
        raise _other_columns(", ".join(frame.columns), ", ".join(given))
    return frame.select(*(col(quote(name)) for name in given))


def _renamed(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    if len(frame.columns) != len(columns):
        raise _other_columns(str(len(frame.columns)), str(len(columns)))
    return frame.toDF(*columns)


def _stored(frame: DataFrame, table: TableName) -> DataFrame:
    """Return *frame* cast to the column types of *table*."""
    types = {
        field.name.lower(): field.dataType
        for field in frame.sparkSession.table(sql_name(table)).schema.fields
    }
    return frame.select(
        *(col(quote(name)).cast(types.get(name.lower(), kind)).alias(name) for name, kind in frame.dtypes)
    )


def _other_columns(now: str, then: str) -> Unsupported:
    return Unsupported(
        f"The query returns the columns ({now}), and returned ({then}) when the job was created. "
        "Name its columns in the place of each *, and run it again."
    )
