"""Tables over Kafka topics: options for Spark's reader and writer, and the mapping of records to rows."""

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
"""The whole record as a column next to its parsed columns, and the partition of the record."""
LAST_OF_PARTITION = "max_by(__record, __record.offset) AS __last"
LAST_RECORD = "max_by(__last, struct(__last.timestamp, __last.partition)) AS last"
"""The last record of a key, aggregated over the last records in each partition.

Offsets of different partitions cannot be compared. A key occurs in several partitions only if its producers
encode it in different ways.
"""
SETS_ROW = "value IS NOT NULL"
"""The condition on the last record of a key under which the key has a row."""
# Spark refuses a batch that begins at the end of a topic, where there are no records.
_EARLIEST = {"startingOffsets": "earliest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A table with the connector `kafka`, in Spark's terms.

    Records have `key`, `value` and Kafka's metadata columns. A record becomes a row in steps. `condition`
    selects the records that become rows. `parsed` are select items in addition to the record's own columns.
    `items` are the select items of the table over both. `computed`, if not empty, are the select items of the
    table over `items`.

    `start` is where reading begins, and `end` where a bounded table ends. Both, and `topics`, are options of
    Spark's reader; `connection` has options of its reader and writer. `written` are the columns that INSERT
    accepts, and `record` the select items that build a record from them. `not_written` says why the table is
    read-only, if it is.

    In a table with `keys`, a record sets the row that these columns identify, and a record without a value
    deletes it. A batch reads the latest row of each key, a stream reads the changes.
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
        """Whether only records that arrive in the future are read."""
        return self.start.get("startingOffsets") == "latest"

    @property
    def batch(self) -> dict[str, str]:
        """Options of Spark's reader for the existing records of the topic.

        If the topic is read from its end, there are none of these records: the reader starts at the
        beginning, and `rows` filters all of them out.
        """
        start = _EARLIEST if self.begins_at_its_end else self.start
        return {**self.connection, **self.topics, **self.reading, **start, **(self.end or {})}

    def records(self, name: str) -> str:
        """Return the Spark statement that creates the table of records as *name*, which is quoted."""
        columns = (*_RECORD, *([_HEADERS] if "includeHeaders" in self.reading else []))
        return f"CREATE TABLE {name} ({', '.join(columns)}) USING kafka OPTIONS ({property_list(self.batch)})"

    def rows(self, records: str) -> str:
        """Return the query that derives the rows of a batch from *records*, the table of records."""
        source, condition = records, self.condition
        if self.keys:
            keys = ", ".join(map(quote, self.keys))
            parsed = f"SELECT *, {', '.join((RECORD, *self.parsed))} FROM {records} WHERE {self.condition}"
            keyed = f"SELECT __record, {', '.join(self.items)} FROM ({parsed})"
            last_of_partitions = (
                f"SELECT {keys}, {LAST_OF_PARTITION} FROM ({keyed}) GROUP BY {keys}, {PARTITION}"
            )
            last_of_keys = f"SELECT {LAST_RECORD} FROM ({last_of_partitions}) GROUP BY {keys}"
            source, condition = f"(SELECT last.* FROM ({last_of_keys}))", SETS_ROW
        text = f"SELECT {', '.join(('*', *self.parsed))} FROM {source} WHERE {condition}"
        text = f"SELECT {', '.join(self.items)} FROM ({text})"
        if self.computed:
            text = f"SELECT {', '.join(self.computed)} FROM ({text})"
        return f"SELECT * FROM ({text}) WHERE false" if self.begins_at_its_end else text

    def of_table(self, name: str) -> KafkaTopic:
        """Return the topic of the same table after it was renamed to *name*."""
        reason = self.not_written.replace(f"Table {self.table}", f"Table {name}", 1)
        return replace(self, table=name, not_written=reason)
