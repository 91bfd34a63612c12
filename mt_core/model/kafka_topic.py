"""Tables over topics of Kafka: what Spark reads and writes them with, and how records become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mt_core.base.identifiers import property_list, quote

_RECORD = (
    *("`key` BINARY", "`value` BINARY", "`topic` STRING", "`partition` INT", "`offset` BIGINT"),
    *("`timestamp` TIMESTAMP", "`timestampType` INT"),
)
_HEADERS = "`headers` ARRAY<STRUCT<key: STRING, value: BINARY>>"
RECORD, PARTITION = "struct(*) AS __record", "__record.partition"
"""A record beside its columns, and the partition that it is in."""
LAST_OF_PARTITION = "max_by(__record, __record.offset) AS __last"
LAST_RECORD = "max_by(__last, struct(__last.timestamp, __last.partition)) AS last"
"""The last record of a key, as an aggregate over the last ones of the partitions. Only producers
that write one key in different bytes put its records into several, whose offsets do not compare."""
SETS_ROW = "value IS NOT NULL"
"""What the last record of a key is if the key has a row."""
# Spark refuses to begin a batch at the end, where there is nothing.
_EARLIEST = {"startingOffsets": "earliest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """What a table with the connector `kafka` means to Spark, whose records have `key`,
    `value` and what Kafka says of them.

    A row is made of a record in steps: `condition` says which records have one; `parsed` are select items
    beside the record's own columns; `items` are those of the table over both; `computed`, unless it is empty,
    are those of the table over `items`. `start` is where reading begins, and `end` where a table that is
    bounded ends. Both are options of Spark's reader, as are `topics`; `connection` holds those of its writer
    too. `written` are the columns that INSERT takes, and `record` the select items of a record over these;
    a table that cannot be written has the reason in `not_written`.

    The records of a table with `keys` set the row that these columns name,
    and those without a value delete it: a batch reads the row that each key has, a stream the changes.
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
    keys: tuple[str, ...] = ()

    @property
    def is_bounded(self) -> bool:
        return self.end is not None

    @property
    def begins_at_its_end(self) -> bool:
        """Whether only records that are yet to come are read."""
        return self.start.get("startingOffsets") == "latest"

    @property
    def batch(self) -> dict[str, str]:
        """The options of Spark's reader of the records that the topic has;
        one that begins at its end has none of them.
        """
        start = _EARLIEST if self.begins_at_its_end else self.start
        return {**self.connection, **self.topics, **self.reading, **start, **(self.end or {})}

    def records(self, name: str) -> str:
        """Return the statement of Spark that creates a table of the records that a batch reads, as *name*,
        which is quoted.
        """
        columns = (*_RECORD, *([_HEADERS] if "includeHeaders" in self.reading else []))
        return f"CREATE TABLE {name} ({', '.join(columns)}) USING kafka OPTIONS ({property_list(self.batch)})"

    def rows(self, records: str) -> str:
        """Return the query of the rows that a batch reads from a table of *records*."""
        source, condition = records, self.condition
        if self.keys:
            keys = ", ".join(map(quote, self.keys))
            parsed = f"SELECT *, {', '.join((RECORD, *self.parsed))} FROM {records} WHERE {self.condition}"
            keyed = f"SELECT __record, {', '.join(self.items)} FROM ({parsed})"
            of_partitions = f"SELECT {keys}, {LAST_OF_PARTITION} FROM ({keyed}) GROUP BY {keys}, {PARTITION}"
            last = f"SELECT {LAST_RECORD} FROM ({of_partitions}) GROUP BY {keys}"
            source, condition = f"(SELECT last.* FROM ({last}))", SETS_ROW
        text = f"SELECT {', '.join(('*', *self.parsed))} FROM {source} WHERE {condition}"
        text = f"SELECT {', '.join(self.items)} FROM ({text})"
        if self.computed:
            text = f"SELECT {', '.join(self.computed)} FROM ({text})"
        return f"SELECT * FROM ({text}) WHERE false" if self.begins_at_its_end else text

    def of_table(self, name: str) -> KafkaTopic:
        """Return the same of a table whose name is another one now."""
        reason = self.not_written.replace(f"Table {self.table}", f"Table {name}", 1)
        return replace(self, table=name, not_written=reason)
