"""Partitioning: columns whose values are partitions, and transforms that only determine the file layout.

A table is refreshed by partition, so statements, schedule times and queries must agree on the names of
partitions. The name is the text of a string or date column. A date-formatter computes that text from a
schedule time. A transform such as days(ts) partitions Iceberg's files, but its values are computed from a
column that the query returns, so they do not name partitions.

Names are checked against the stored types and the types that the query returns. A date column is refused if
its query returns a timestamp, because the stored date matches only some of the query's values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import combinations
from typing import TypeVar

from mt_core.base.identifiers import display_name, string_literal
from mt_core.errors import DefinitionInvalid
from mt_core.model.formatter import check_pattern, is_formatted
from mt_core.model.table import FORMATTER_PREFIX, FORMATTER_SUFFIX, Column, TableDefinition, TableIdentifier
from mt_core.model.transform import Transform, TransformKind

Value = TypeVar("Value", str, str | None)
DATE_PATTERN = "yyyy-MM-dd"
"""The only date pattern for partitions by a DATE column."""
_TIMES = frozenset({TransformKind.YEARS, TransformKind.MONTHS, TransformKind.DAYS, TransformKind.HOURS})
_INSTANTS = ("TIMESTAMP", "TIMESTAMP_NTZ")
_COUNTED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "STRING", "BINARY")
_TYPES: Mapping[TransformKind, tuple[str, ...]] = {
    **dict.fromkeys(_TIMES, ("DATE", *_INSTANTS)),
    TransformKind.HOURS: _INSTANTS,
    TransformKind.BUCKET: (*_COUNTED, "DATE", *_INSTANTS),
    TransformKind.TRUNCATE: _COUNTED,
}


def partition_keys(
    keys: Sequence[str], columns: Sequence[Column], identifier: TableIdentifier
) -> tuple[str, ...]:
    """Return *keys* spelled as in *columns*; raise DefinitionInvalid for an unknown or repeated column."""
    spelt = tuple(_spelt(key, key, columns, identifier) for key in keys)
    if len(set(spelt)) != len(spelt):
        raise DefinitionInvalid(f"PARTITIONED BY of {identifier} names a column twice.")
    return spelt


def spelt_transforms(
    transforms: Sequence[Transform], columns: Sequence[Column], identifier: TableIdentifier
) -> tuple[Transform, ...]:
    """Return *transforms* spelled as in *columns*; raise DefinitionInvalid for an unknown column."""
    return tuple(
        replace(each, column=_spelt(each.column, str(each), columns, identifier)) for each in transforms
    )


def _spelt(column: str, written: str, columns: Sequence[Column], identifier: TableIdentifier) -> str:
    names = {each.name.lower(): each.name for each in columns}
    if column.lower() not in names:
        raise DefinitionInvalid(
            f"PARTITIONED BY ({written}): the query of {identifier} does not return "
            f"{'this column' if written == column else f'column {column}'}; "
            f"it returns {', '.join(names.values())}."
        )
    return names[column.lower()]


def check_transforms(
    identifier: TableIdentifier, transforms: Sequence[Transform], columns: Sequence[Column]
) -> None:
    """Raise DefinitionInvalid unless Iceberg supports *transforms* on *columns* with their storage types."""
    types, names = (
        {each.name: each.type for each in columns},
        {each.name.lower(): each.name for each in columns},
    )
    for each in transforms:
        type_, allowed = types[each.column], _TYPES[each.kind]
        if _base(type_) not in allowed:
            raise _refused(
                identifier,
                str(each),
                f"{each.kind} takes {', '.join(allowed[:-1])} or {allowed[-1]}, but {each.column} of "
                f"{identifier} is {type_.upper()}; CAST it in the query, or leave the transform out.",
            )
        taken = names.get(each.field.lower())
        if taken is not None:
            raise _refused(
                identifier,
                str(each),
                f"Iceberg names its values {each.field}, and {identifier} has a column {taken}; "
                "give that another name in the query with AS, or leave the transform out.",
            )
    for first, second in combinations(transforms, 2):
        if first.column == second.column and (
            first.kind is second.kind or {first.kind, second.kind} <= _TIMES
        ):
            raise _refused(
                identifier,
                f"{first}, {second}",
                "Iceberg accepts only one of these per column; "
                f"keep one of the two for {first.column} of {identifier}.",
            )


def _refused(identifier: TableIdentifier, written: str, reason: str) -> DefinitionInvalid:
    return DefinitionInvalid(
        f"PARTITIONED BY ({written}): {reason}", table=str(identifier), key="PARTITIONED BY"
    )


def _base(type_: str) -> str:
    """Return the name of a type without its parameters, in upper case."""
    return "STRING" if is_string(type_) else type_.partition("(")[0].upper()


def is_string(type_name: str) -> bool:
    """Return whether a Spark type is a string type."""
    lowered = type_name.lower()
    return lowered == "string" or lowered.startswith(("char", "varchar", "string collate"))


# ------------------------------------------------------------------------------------ the names of partitions


def checked_formatters(definition: TableDefinition, identifier: TableIdentifier) -> dict[str, str]:
    """Return the options after checking date-formatters, with their columns spelled as in the query.

    Raises DefinitionInvalid for an invalid date-formatter.
    """
    options = dict(definition.options)
    by_lower = {key.lower(): key for key in definition.partition_keys}
    for written, pattern in definition.declared_formatters.items():
        column = by_lower.get(written.lower())
        option = f"{FORMATTER_PREFIX}{written}{FORMATTER_SUFFIX}"
        reason = (
            _no_column(definition, identifier, written, pattern)
            if column is None
            else _no_date(definition, identifier, column, pattern)
        )
        if column is None or reason is not None:
            raise DefinitionInvalid(f"Option {option}: {reason}", table=str(identifier), key=option)
        check_pattern(column, pattern)
        del options[option]
        if options.setdefault(f"{FORMATTER_PREFIX}{column}{FORMATTER_SUFFIX}", pattern) != pattern:
            raise DefinitionInvalid(
                f"Option {option}: column {column} of {identifier} has a date-formatter twice.",
                table=str(identifier),
                key=option,
            )
    return options


def _no_column(definition: TableDefinition, identifier: TableIdentifier, written: str, pattern: str) -> str:
    """Return why *written*, which is not a partition column, cannot have a date-formatter."""
    for each in definition.transforms:
        if written.lower() in (each.column.lower(), each.field.lower()):
            column = display_name((each.column,))
            is_day = pattern == DATE_PATTERN
            computed = (
                f"CAST({column} AS DATE)" if is_day else f"date_format({column}, {string_literal(pattern)})"
            )
            return (
                f"{each} only lays out the files of {identifier}, and schedule times cannot name its "
                f"partitions; add a column to the query, such as {computed} AS ds, and PARTITIONED BY (ds)."
            )
    known = ", ".join(definition.partition_keys) or f"none: {_without_columns(definition)}"
    return f"{written} is not a partition column of {identifier}; its partition columns are {known}."


def _no_date(
    definition: TableDefinition, identifier: TableIdentifier, column: str, pattern: str
) -> str | None:
    """Return why a partition column cannot have the date-formatter *pattern*, or None if it can."""
    type_ = _type_of(definition, column)
    if not is_string(type_) and type_.lower() != "date":
        return (
            "only string and date partition columns can have a date-formatter, "
            f"but {column} of {identifier} is {type_.upper()}; "
            f"CAST it to {'DATE' if _base(type_).startswith('TIMESTAMP') else 'STRING'} in the query."
        )
    if (reason := _no_text(definition, identifier, column)) is not None:
        return f"{reason}; CAST it to DATE in the query."
    name = display_name((column,))
    if type_.lower() == "date" and pattern != DATE_PATTERN:
        return (
            f"{column} of {identifier} is DATE, whose only pattern is {DATE_PATTERN}, not '{pattern}'; "
            "for another one, return a string from the query, "
            f"such as date_format({name}, {string_literal(pattern)}) AS {name}."
        )
    return None


def check_partition_spec(
    identifier: TableIdentifier,
    definition: TableDefinition,
    spec: Mapping[str, Value],
    *,
    formatted: bool = True,
) -> dict[str, Value]:
    """Return *spec* with columns spelled as in the table.

    A value of None is NULL, or means that there is no value. With *formatted*, all other values must match
    the date-formatter. Raises DefinitionInvalid for an unknown key or an invalid value.
    """
    by_lower = {key.lower(): key for key in definition.partition_keys}
    checked: dict[str, Value] = {}
    for key, value in spec.items():
        column = by_lower.get(key.lower())
        if column is None:
            known = ", ".join(definition.partition_keys)
            theirs = f"its partition columns are {known}" if known else _without_columns(definition)
            raise _unusable(
                identifier, key, value, f"{key} is not a partition column of {identifier}; {theirs}."
            )
        if (reason := _no_text(definition, identifier, column)) is not None:
            raise _unusable(identifier, key, value, f"{reason}; refresh the whole table instead.")
        pattern = definition.date_formatters.get(column)
        if value is None:
            pass
        elif _type_of(definition, column).lower() == "date":
            if not _is_date(value):
                reason = (
                    f"{column} of {identifier} is DATE, and this is not a day in the form {DATE_PATTERN}."
                )
                raise _unusable(identifier, key, value, reason)
        elif formatted and pattern is not None and not is_formatted(value, pattern):
            reason = (
                f"the partitions of {identifier} are named by the date-formatter '{pattern}', "
                "and this is not such a value."
            )
            raise _unusable(identifier, key, value, reason)
        if checked.setdefault(column, value) != value:
            raise _unusable(identifier, key, value, f"{column} of {identifier} is given twice.")
    return checked


def _no_text(definition: TableDefinition, identifier: TableIdentifier, column: str) -> str | None:
    """Return why partitions by *column* cannot be named, or None if they can.

    A date that was stored from a timestamp can be looked up in the table, but not in the query, which also
    returns a time of day.
    """
    type_ = _type_of(definition, column)
    query_type = definition.query_types.get(column, type_)
    if is_string(type_) or (type_.lower(), query_type.lower()) == ("date", "date"):
        return None
    if type_.lower() == "date":
        return f"{column} of {identifier} is DATE, but its query returns {query_type.upper()}"
    return (
        f"only string and date partition columns can be named, but {column} of {identifier} "
        f"is {type_.upper()}"
    )


def _type_of(definition: TableDefinition, column: str) -> str:
    return next(each.type for each in definition.columns if each.name == column)


def _without_columns(definition: TableDefinition) -> str:
    if not definition.transforms:
        return "it is not partitioned"
    return (
        f"{', '.join(map(str, definition.transforms))} only "
        f"{'lays' if len(definition.transforms) == 1 else 'lay'} out its files"
    )


def _is_date(text: str) -> bool:
    """Return whether *text* is a day in the canonical form of a DATE."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _unusable(identifier: TableIdentifier, key: str, value: str | None, reason: str) -> DefinitionInvalid:
    written = "NULL" if value is None else value
    return DefinitionInvalid(
        f"PARTITION ({key} = '{written}'): {reason}", table=str(identifier), key=key, value=written
    )
