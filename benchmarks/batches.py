"""What does a batch of 100 rows cost over 500 batches, including upkeep?

And what do readers of the table pay meanwhile?
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, timed

BATCHES, ROWS_EACH, KEYS = 500, 100, 1_000_000
SOURCE = "lake.default.events"
PACE_S = 0.55
# The number of commits between two readings of the batch durations, of which a table keeps only a few, and of
# the duration of a reader.
LOOK_EVERY = 20
WARM_UP = 20
READS = 3
MOST_OF_COMPACTED = 2.0
QUIET_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A table, its options, and the number of seconds that a batch may take."""

    name: str
    options: str
    text: str
    read: str
    most: float


CASES = (
    Kept(
        name="replaced_by_key",
        options=", 'write.upsert' = 'equality-delete'",
        text=f"SELECT customer, count(*) AS n, sum(amount) AS total FROM {SOURCE} GROUP BY customer",
        read="sum(n), sum(total)",
        most=0.45,
    ),
    Kept(
        name="appended",
        options="",
        text=f"SELECT id, customer, amount * 2 AS doubled FROM {SOURCE}",
        read="sum(doubled), max(customer)",
        most=0.25,
    ),
)


@dataclass(slots=True)
class Taken:
    """The durations of a table's batches, by their start, and of its readers while it was refreshed."""

    batches: dict[str, float] = field(default_factory=dict)
    reads: list[float] = field(default_factory=list)

    @property
    def counted(self) -> Samples:
        return Samples([seconds for _, seconds in sorted(self.batches.items())][WARM_UP:])


def measure() -> Iterator[Finding]:
    """Yield a table for each way to maintain a table."""
    with embedded_gateway() as gateway:
        gateway.spark.sql(
            f"CREATE TABLE {SOURCE} USING iceberg AS "
            f"SELECT id, CAST(id AS INT) AS customer, pmod(hash(id), 1000) AS amount FROM range({KEYS})"
        )
        for kept in CASES:
            yield _finding(gateway, kept)


def _finding(gateway: Embedded, kept: Kept) -> Finding:
    taken = _kept(gateway, kept)
    upkeep = _upkeep(gateway, kept) / len(taken.batches)
    overwrite = timed(lambda: gateway.sql(f"ALTER MATERIALIZED TABLE {kept.name} REFRESH"))
    compacted, reads, batch = _compacted(gateway, kept), Samples(taken.reads), taken.counted
    mean = statistics.mean(batch.seconds) + upkeep
    return Finding(
        title=f"Batches of {ROWS_EACH} rows into a table of {KEYS:,}: {kept.name.replace('_', ' ')}",
        columns=["batches", "a batch", "upkeep", "full overwrite", "a reader", "after compaction"],
        rows=[
            [
                str(len(taken.batches)),
                batch.shown(),
                show(upkeep),
                show(overwrite),
                reads.shown(),
                show(compacted),
            ],
        ],
        targets=[
            Target(
                asked=f"at most {show(kept.most)} with upkeep counted in",
                measured=f"{show(mean)} on average",
                met=mean <= kept.most,
            ),
            Target(
                asked=f"readers at most {MOST_OF_COMPACTED:g}x those of the compacted table",
                measured=f"{reads.median / compacted:.2f}x, at worst {reads.worst / compacted:.2f}x",
                met=reads.median <= MOST_OF_COMPACTED * compacted,
            ),
        ],
        notes=[
            f"Median (min to max). A commit each {show(PACE_S)} until {BATCHES} batches have published, "
            f"of which the first {WARM_UP} do not count. "
            "Upkeep: the time of all compactions over the number of batches.",
            f"A reader computes two aggregates over the whole table, after each {LOOK_EVERY} commits, "
            f"median of {READS}; after compaction: after `rewrite_data_files` of all files.",
        ],
    )


def _kept(gateway: Embedded, kept: Kept) -> Taken:
    """Commit to the source until the given number of batches has been published, then suspend the table."""
    taken = Taken()
    gateway.sql(
        f"CREATE MATERIALIZED TABLE {kept.name} WITH ('refresh.strategy' = 'incremental'{kept.options}) "
        f"FRESHNESS = INTERVAL '1' SECOND AS {kept.text}"
    )
    commits = 0
    while len(taken.batches) < BATCHES:
        begun = time.monotonic()
        gateway.spark.sql(
            f"INSERT INTO {SOURCE} SELECT {KEYS} + id, CAST(pmod(hash(id, {commits}), {KEYS}) AS INT), id "
            f"FROM range({ROWS_EACH})"
        )
        commits += 1
        time.sleep(max(0.0, PACE_S - (time.monotonic() - begun)))
        if commits % LOOK_EVERY == 0:
            time.sleep(QUIET_S)
            taken.batches |= _batches(gateway, kept)
            taken.reads.append(_read(gateway, kept))
    gateway.sql(f"ALTER MATERIALIZED TABLE {kept.name} SUSPEND")
    return taken


def _batches(gateway: Embedded, kept: Kept) -> Mapping[str, float]:
    """Return the durations of the last batches, by their start."""
    found = _rows(gateway, f"SHOW REFRESHES FOR {kept.name} BATCHES LIMIT {3 * LOOK_EVERY}")
    return {str(each["began at"]): float(str(each["seconds"])) for each in found}


def _upkeep(gateway: Embedded, kept: Kept) -> float:
    """Return the total duration of all compactions of a table, in seconds."""
    runs = _rows(gateway, f"SHOW REFRESHES FOR {kept.name} EXTENDED LIMIT 1000")
    return sum(
        (
            datetime.fromisoformat(str(run["finished at"])) - datetime.fromisoformat(str(run["started at"]))
        ).total_seconds()
        for run in runs
        if str(run["kind"]).upper() == "COMPACTION"
    )


def _compacted(gateway: Embedded, kept: Kept) -> float:
    """Return how long a reader of the table takes after a compaction of all its files."""
    options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    gateway.spark.sql(
        f"CALL lake.system.rewrite_data_files(table => 'default.{kept.name}', options => {options})"
    )
    return _read(gateway, kept)


def _read(gateway: Embedded, kept: Kept) -> float:
    gateway.spark.sql(f"REFRESH TABLE lake.default.{kept.name}")
    query = f"SELECT {kept.read} FROM lake.default.{kept.name}"
    return statistics.median(timed(partial(_collect, gateway, query)) for _ in range(READS))


def _collect(gateway: Embedded, query: str) -> None:
    gateway.spark.sql(query).collect()


def _rows(gateway: Embedded, statement: str) -> list[Mapping[str, object]]:
    return [
        dict(zip([column.name for column in page.columns], row, strict=True))
        for page in gateway.sql(statement)
        for row in page.rows
    ]
