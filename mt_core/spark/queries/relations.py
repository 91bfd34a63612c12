"""Relations of a query: the names in its text with their positions, and the relations
that its analysed plan reads.
"""

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
    """A relation in a text: `text[start:stop]` is its name.

    `cte`: the name of a WITH query; `aliased`: an alias follows; `travel`: the version in the text
    (`timestamp` for TIMESTAMP AS OF), None without one; `table_word`: where the word TABLE before the name
    begins, None without it.
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
        """Where the relation begins, with the word TABLE."""
        return self.start if self.table_word is None else self.table_word


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """A text with the relations and functions that it names, and how many clauses WITH it has.

    `identifier_clause`: IDENTIFIER() hides some of the names.
    """

    text: str
    relations: tuple[RelationName, ...]
    functions: tuple[tuple[str, ...], ...]
    with_clauses: int
    identifier_clause: bool


def parse(session: SparkSession, text: str, plan: Any = None) -> ParsedQuery:
    """Return the relations of a query with their positions; *plan* is that of a query
    that is only a part of *text*.

    Raises DefinitionInvalid if the text is a command, Unsupported if it reads a stream.
    """
    reader = own_class(session, _NAMES)
    found = json.loads(reader.ofText(session._jsparkSession, text) if plan is None else reader.of(plan))
    if "command" in found:
        raise DefinitionInvalid("The text is not a query; write a SELECT, VALUES, TABLE or WITH … SELECT.")
    if "stream" in found:
        raise Unsupported(
            f"STREAM {display_name(found['stream'])}: a refresh in FULL mode reads tables, "
            "not streams; leave out STREAM."
        )
    relations = (_relation(text, each) for each in found["relations"])
    return ParsedQuery(
        text=text,
        relations=tuple(sorted(relations, key=lambda relation: relation.start)),
        functions=tuple(dict.fromkeys(map(tuple, found["functions"]))),
        with_clauses=found["with"],
        identifier_clause=found["identifiers"],
    )


def _relation(text: str, found: Mapping[str, Any]) -> RelationName:
    word = TABLE_WORD.search(text[: found["start"]])
    return RelationName(
        **{**found, "parts": tuple(found["parts"])}, table_word=None if word is None else word.start()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRelation:
    """A leaf of an analysed plan. `parts` is None for one without a name (files by path).

    `table` is Iceberg's, if it is one, and `columns` the names of its columns by the ids of their
    attributes in the plan.
    """

    parts: tuple[str, ...] | None
    table: Any = field(default=None, repr=False, compare=False)
    columns: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)


def base_relations(session: SparkSession, analysed: Any) -> tuple[BaseRelation, ...]:
    """Return what an analysed plan reads, below views, WITH queries and subqueries."""
    found = own_class(session, _BASES).of(analysed)
    facts = json.loads(found.facts())
    # Each table takes a call.
    tables = found.tables() if any("columns" in each for each in facts) else ()
    return tuple(
        BaseRelation(
            parts=tuple(each["name"]) if "name" in each else None,
            table=tables[place] if "columns" in each else None,
            columns={int(number): name for number, name in each.get("columns", {}).items()},
        )
        for place, each in enumerate(facts)
    )


def identifier_fields(frame: DataFrame) -> tuple[str, ...]:
    """Return the identifier fields of the Iceberg table that *frame* is, in the order of its columns;
    none of anything else.
    """
    keys = json.loads(own_class(frame.sparkSession, _BASES).identifierFields(frame._jdf))
    return tuple(column for column in frame.columns if column in keys)
