"""Tables over topics of Kafka: what Spark reads and writes them with, and how records become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """What a table with the connector `kafka` means to Spark, whose records have `key`, `value` and what Kafka says of them.

    A row is made of a record in steps: `condition` says which records have one; `parsed` are select items beside the record's
    own columns; `items` are those of the table over both; `computed`, unless it is empty, are those of the table over `items`.
    `start` is where reading begins, and `end` where a table that is bounded ends. Both are options of Spark's reader, as are
    `topics`; `connection` holds those of its writer too. `written` are the columns that INSERT takes, and `record` the select
    items of a record over these; a table that cannot be written has the reason in `not_written`.
    """

    table: str
    topics: Mapping[str, str]
    connection: Mapping[str, str] = field(repr=False)
    start: Mapping[str, str]
    end: Mapping[str, str] | None = None
    reading: Mapping[str, str] = field(default_factory=dict)
    condition: str
    parsed: tuple[str, ...] = ()
    items: tuple[str, ...]
    computed: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    not_written: str = ""

    @property
    def is_bounded(self) -> bool:
        return self.end is not None

    @property
    def begins_at_its_end(self) -> bool:
        """Whether only records that are yet to come are read."""
        return self.start.get("startingOffsets") == "latest"
