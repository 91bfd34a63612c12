"""The partitions that a statement names, as listed values or as a range.

A range selects the values in it that the table or its query has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from mt_core.errors import RequestInvalid
from mt_core.model.partition import WHOLE, PartitionSpec, PartitionValues, Scope, ValueRange
from mt_core.model.table import MaterializedTable
from mt_core.tables.definition.partitioning import check_partition_spec
from mt_core.tables.services import TableServices, query_of

MOST_NAMED = 5000


def scope_named(
    services: TableServices, table: MaterializedTable, named: Mapping[str, PartitionValues]
) -> Scope:
    """Return the scope of PARTITION (*named*), or the whole table if *named* is empty.

    Raises DefinitionInvalid for an invalid column or value, and RequestInvalid for too many partitions.
    """
    if not named:
        return WHOLE
    values = dict(_values(services, table, column, each) for column, each in named.items())
    number = 1
    for each in values.values():
        number *= len(each)
    if not 0 < number <= MOST_NAMED:
        raise RequestInvalid(
            f"REFRESH of {table.identifier}: PARTITION (…) names {number} partitions of the table and its "
            f"query; name 1 to {MOST_NAMED}, or refresh the whole table."
        )
    return Scope.of(
        PartitionSpec.of(dict(zip(values, combination, strict=True)))
        for combination in product(*values.values())
    )


def _values(
    services: TableServices, table: MaterializedTable, key: str, values: PartitionValues
) -> tuple[str, Sequence[str | None]]:
    """Return the partition column that *key* names and the values that *values* selects."""
    identifier, definition = table.identifier, table.definition
    if isinstance(values, ValueRange):
        for bound in (values.lower, values.upper):
            (column,) = check_partition_spec(identifier, definition, {key: bound}, formatted=False)
        existing = services.engine.queries.partition_values(query_of(definition), identifier, column)
        return column, sorted(value for value in existing if value is not None and value in values)
    listed = (values,) if isinstance(values, str) else values
    for value in listed:
        (column,) = check_partition_spec(identifier, definition, {key: value})
    return column, list(dict.fromkeys(listed))
