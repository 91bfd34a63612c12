"""Look-ups: rows that have given values, found in this process, or by a Spark job if that is faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr
from pyspark.sql.types import StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.local_limits import MOST_LOCAL
from mt_core.spark.driver.jvm_objects import java_booleans, java_strings, own_class
from mt_core.spark.iceberg.bounds import EVERYWHERE, MOST_NAMED, bounds_of
from mt_core.spark.iceberg.computed_rows import ComputedRows, collected
from mt_core.spark.iceberg.jvm_rows import columns_of, java_type

MOST_READ = 64_000_000
"""The maximum number of rows in candidate pages that this process reads itself.

For more rows, a Spark job is faster, because it uses all of Spark's cores.
"""
MOST_CANDIDATES = 4_000_000
"""The maximum number of rows that match in the first key column. Each takes 20 bytes."""
MOST_FILES = 500
"""The maximum number of files. Each costs the reading of its footer."""
MOST_POSITIONS = 16_000_000
"""The maximum number of deleted positions, which are read and kept in memory."""
FILE, POSITION = "_file", "_pos"
Matches = Sequence[tuple[str, str, bool]]
"""Pairs of columns that must be equal: one of the given rows, one of the rows that are looked up.

The third item says whether NULL equals NULL.
"""
_PACKAGE = "freshtable.files"
_LOOK_UP = f"{_PACKAGE}.KeyLookUp"


class Refusal(StrEnum):
    """Why rows were not looked up."""

    ROWS = "ROWS"
    """More than `MOST_LOCAL` rows match."""
    PAGES = "PAGES"
    """Rows in more pages than `MOST_READ` permits may match, or more than `MOST_CANDIDATES` in one column."""
    FILES = "FILES"
    """There are too many files or deleted positions, or a file was added to the table twice."""
    UNREADABLE = "UNREADABLE"
    """The files cannot be read. A Spark job may read them, or report the error."""


def look_up(
    session: SparkSession, table: Any, files: Any, columns: StructType, keys: ComputedRows, matches: Matches
) -> ComputedRows | Refusal:
    """Return *columns* of the rows in *files* that match *keys*.

    *files* is a `freshtable.files.VersionFiles` of *table*, an Iceberg table, and *keys* are rows in the JVM.
    The columns that are looked up must be among *columns*.
    Each pair of columns is compared by itself, and values of other types than integers, strings, dates,
    timestamps, booleans and decimals of up to 18 digits match, so there may be further rows.
    """
    of, names, null_safe = zip(*matches, strict=True)
    found = own_class(session, _LOOK_UP).of(
        session._jsparkSession,
        table,
        files,
        java_type(session, columns),
        java_strings(session, names),
        keys.java,
        java_strings(session, of),
        java_booleans(session, null_safe),
        _limits(session),
    )
    rows = found.rows()
    return Refusal(str(found.refusal())) if rows is None else ComputedRows.of_java(session, columns, rows)


def look_up_places(
    session: SparkSession,
    table: Any,
    tasks: Any,
    columns: StructType,
    values: ComputedRows,
    *,
    complete: bool,
) -> ComputedRows | None:
    """Return *columns* of the rows in the files of *tasks* that match *values*, with FILE and POSITION.

    Each column is matched separately, so the result may also contain rows whose combination of values
    is not in *values*. The columns of *values* are the first of *columns*, with the same types. With
    *complete*, *values* has a further column, the number of copies of each row, and the table is known
    to contain all of them. Their order is then undefined: a place may have the values of another row.

    Return None if the look-up is refused.
    """
    rows = own_class(session, _LOOK_UP).withPlaces(
        session._jsparkSession,
        table,
        tasks,
        java_type(session, columns),
        values.java,
        complete,
        _limits(session),
    )
    return None if rows is None else ComputedRows.of_java(session, columns_of(rows.columns()), rows)


def _limits(session: SparkSession) -> Any:
    return own_class(session, f"{_LOOK_UP}$Limits")(
        MOST_LOCAL, MOST_CANDIDATES, MOST_READ, MOST_FILES, MOST_POSITIONS
    )


def semi_join(
    rows: ComputedRows, others: ComputedRows, matches: Matches, *, exact: bool = False
) -> ComputedRows:
    """Return the *rows* that match *others*; both are in the JVM.

    Each pair of columns is compared by itself, as in a look-up, so there may be further rows. With *exact*,
    the result is that of a semi join: a row has all its values in common with one of *others*. Columns that
    are compared must then be of the same type or integers, but may be of all types that GROUP BY permits.
    """
    return _compared(rows, others, matches, "exact" if exact else "of")


def anti_join(rows: ComputedRows, others: ComputedRows, matches: Matches) -> ComputedRows:
    """Return the *rows* that the exact `semi_join` leaves out, but none with a NULL that equals nothing."""
    return _compared(rows, others, matches, "without")


def _compared(rows: ComputedRows, others: ComputedRows, matches: Matches, method: str) -> ComputedRows:
    session = rows.session
    of, columns, null_safe = zip(*matches, strict=True)
    java = getattr(own_class(session, f"{_PACKAGE}.SemiJoin"), method)(
        rows.java,
        java_strings(session, columns),
        others.java,
        java_strings(session, of),
        java_booleans(session, null_safe),
    )
    return ComputedRows.of_java(session, rows.schema, java)


def spark_look_up(
    rows: DataFrame, columns: Sequence[str], keys: ComputedRows, matches: Matches
) -> ComputedRows | None:
    """Return *columns* of the *rows* that match *keys*, or None if they are more than `MOST_LOCAL`.

    A Spark job reads the files that may have them, according to the keys or to the least and the greatest of
    them.
    """
    found = spark_semi_join(rows, keys, matches, conditions=key_conditions(keys, matches))
    return collected(found.select(*map(quote, columns)))


def spark_semi_join(
    rows: DataFrame, keys: ComputedRows, matches: Matches, *, conditions: Iterable[str] = ()
) -> DataFrame:
    """Return the *rows* that match *keys*, of which each is compared in all columns.

    *conditions* on rows `q` are true for all of these, and let Spark skip files.
    """
    on = (f"q.{quote(to)} {'<=>' if null_safe else '='} k.{quote(of)}" for of, to, null_safe in matches)
    given = keys.frame.alias("k")
    return (
        rows.alias("q")
        .where(" AND ".join(conditions) or EVERYWHERE)
        .join(broadcast(given) if keys.few else given, expr(" AND ".join(on)), "left_semi")
        .select("q.*")
    )


def key_conditions(keys: ComputedRows, matches: Matches) -> Iterator[str]:
    """Yield SQL conditions that all rows `q` that match *keys* satisfy.

    A short list of keys is one condition: it also prunes hidden partitions such as buckets.
    """
    for of, to, null_safe in matches:
        for bound in bounds_of(keys, [of]):
            listed = [] if keys.rows is None else keys.rows[of].unique().to_pylist()
            named = [value for value in listed if null_safe or value is not None]
            condition = replace(bound, column=to, nullable=null_safe)
            yield condition.among(named) if 0 < len(named) <= MOST_NAMED else condition.condition()
