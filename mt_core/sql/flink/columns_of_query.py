"""The columns of CREATE TABLE t (columns) AS query: merges the column list with the query's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mt_core.base.identifiers import quote
from mt_core.errors import DefinitionInvalid
from mt_core.model.table import Column
from mt_core.sql.statements import ColumnSpec


def overrides(declared: Sequence[ColumnSpec], produced: Sequence[Column]) -> Iterator[tuple[Column, Column]]:
    """Yield each column of the query whose type the list overrides, paired with the column of the list."""
    types = {each.name.lower(): each for each in declared if each.type is not None}
    for column in produced:
        if each := types.get(column.name.lower()):
            yield column, Column(name=each.name, type=each.type or column.type)


def select_list(table: str, declared: Sequence[ColumnSpec], produced: Sequence[Column]) -> str:
    """Return the items of SELECT … FROM (query) that produce the columns of the table.

    A list of names only reorders the query's columns. In a list with types, columns that the query lacks come
    first and are NULL; the other columns keep the query's order. Raises DefinitionInvalid for names that are
    not columns of the query.
    """
    declared_columns = {each.name.lower(): each for each in declared}
    columns = {each.name.lower(): each for each in produced}
    if declared and declared[0].type is None:
        if declared_columns.keys() != columns.keys():
            raise DefinitionInvalid(
                f"Table {table}: the list names {', '.join(each.name for each in declared)}, "
                f"but the columns of the query are {', '.join(each.name for each in produced)}; "
                "name all of them, or give the columns types."
            )
        return ", ".join(_item(columns[each.name.lower()].name, each.name) for each in declared)
    added = [
        f"CAST(NULL AS {each.type}) AS {quote(each.name)}"
        for each in declared
        if each.name.lower() not in columns
    ]
    from_query = [
        f"CAST({quote(column.name)} AS {each.type}) AS {quote(each.name)}"
        if (each := declared_columns.get(column.name.lower()))
        else quote(column.name)
        for column in produced
    ]
    return ", ".join([*added, *from_query])


def _item(column: str, name: str) -> str:
    return quote(column) if column == name else f"{quote(column)} AS {quote(name)}"
