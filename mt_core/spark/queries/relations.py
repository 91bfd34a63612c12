"""The relations of a query: the names in its text with positions, and the leaves of its analysed plan."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.spark.driver.jvm_objects import own_class

_NAMES = "freshtable.queries.QueryNames"
_BASES = "freshtable.queries.BaseRelations"
TABLE_WORD = re.compile(r"\bTABLE(?:\s|/\*.*?\*/|--[^\n]*\n)*$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationName:
    """A relation in SQL: `text[start:stop]` is its name.

    `cte` means that the name refers to a WITH query, and `aliased` that an alias follows. `travel` is the
    version in the text (`timestamp` for TIMESTAMP AS OF) or None. `table_word` is the position of the
    keyword TABLE before the name, or None.
    """

    parts: tuple[str, ...]
    start: int
    stop: int
    cte: bool = False
    aliased: bool = False
    travel: str | None = None
    table_word: int | None = None

    @property
    def begin(self) -> int:
        """The start of the relation, including the keyword TABLE before its name."""
        return self.start if self.table_word is None else self.table_word


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """SQL with the relations and functions that it names, and its number of WITH clauses.

    `identifier_clause` means that some names are hidden in IDENTIFIER().
    """

    text: str
    relations: tuple[RelationName, ...]
    functions: tuple[tuple[str, ...], ...]
    with_clauses: int
    identifier_clause: bool


def parse(session: SparkSession, text: str, plan: Any = None) -> ParsedQuery:
    """Return the relations and functions of a query, with their positions in *text*.

    If the query is only a part of *text*, *plan* must be its parsed plan. Raises DefinitionInvalid if the
    text is a command, and Unsupported if it reads a stream.
    """
    reader = own_class(session, _NAMES)
    facts = json.loads(reader.ofText(session._jsparkSession, text) if plan is None else reader.of(plan))
    if "command" in facts:
        raise DefinitionInvalid("The text is not a query; write a SELECT, VALUES, TABLE or WITH … SELECT.")
    if "stream" in facts:
        raise Unsupported(
            f"STREAM {display_name(facts['stream'])}: a refresh in FULL mode reads tables, "
            "not streams; leave out STREAM."
        )
    relations = (_relation(text, each) for each in facts["relations"])
    return ParsedQuery(
        text=text,
        relations=tuple(sorted(relations, key=lambda relation: relation.start)),
        functions=tuple(dict.fromkeys(map(tuple, facts["functions"]))),
        with_clauses=facts["with"],
        identifier_clause=facts["identifiers"],
    )


def _relation(text: str, facts: Mapping[str, Any]) -> RelationName:
    word = TABLE_WORD.search(text[: facts["start"]])
    return RelationName(
        **{**facts, "parts": tuple(facts["parts"])}, table_word=None if word is None else word.start()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRelation:
    """A leaf of an analysed plan.

    `parts` is None for a leaf without a name, such as files read by path. `table` is the Iceberg table, if
    it is one. `columns` maps attribute ids in the plan to column names.
    """

    parts: tuple[str, ...] | None
    table: Any = field(default=None, repr=False, compare=False)
    columns: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)


def base_relations(session: SparkSession, analysed: Any) -> tuple[BaseRelation, ...]:
    """Return the leaves of an analysed plan, including those in views, WITH queries and subqueries."""
    bases = own_class(session, _BASES).of(analysed)
    facts = json.loads(bases.facts())
    # Fetching the Java tables takes a call, so they are fetched only if there are any.
    tables = bases.tables() if any("columns" in each for each in facts) else ()
    return tuple(
        BaseRelation(
            parts=tuple(each["name"]) if "name" in each else None,
            table=tables[place] if "columns" in each else None,
            columns={int(number): name for number, name in each.get("columns", {}).items()},
        )
        for place, each in enumerate(facts)
    )


def identifier_fields(frame: DataFrame) -> tuple[str, ...]:
    """Return the identifier fields of an Iceberg table, in column order; empty for any other *frame*."""
    keys = json.loads(own_class(frame.sparkSession, _BASES).identifierFields(frame._jdf))
    return tuple(column for column in frame.columns if column in keys)
