"""The demo's source tables, its materialized tables and their queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from mt_core.demo.flights import SOURCES, FlightFiles

NAMESPACE = "lake.demo"
ZONE = "America/New_York"
FIRST_DAY = date(2013, 1, 1)
DAYS_AT_START = 7
ARRIVING_DAYS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTable:
    """A materialized table of the demo: its clauses before AS, and its query."""

    name: str
    clauses: str
    query: str

    @property
    def full_name(self) -> str:
        return f"{NAMESPACE}.{self.name}"

    @property
    def create(self) -> str:
        return f"CREATE MATERIALIZED TABLE {self.full_name}\n{self.clauses}\nAS {self.query}"


DAILY = DemoTable(
    name="daily",
    clauses="""PARTITIONED BY (ds)
WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')
FRESHNESS = INTERVAL '1' DAY""",
    query=f"""SELECT ds, origin, count(*) AS flights, count_if(dep_delay > 15) AS late, sum(distance) AS miles
FROM {NAMESPACE}.flights GROUP BY ds, origin""",
)
ROUTES = DemoTable(
    name="routes",
    clauses="FRESHNESS = INTERVAL '5' SECOND REFRESH_MODE = FULL",
    query=f"""SELECT airline.name AS airline, flight.origin, airport.name AS destination, count(*) AS flights
FROM {NAMESPACE}.flights AS flight
JOIN {NAMESPACE}.airlines AS airline ON airline.carrier = flight.carrier
JOIN {NAMESPACE}.airports AS airport ON airport.faa = flight.dest
GROUP BY airline.name, flight.origin, airport.name""",
)
PUNCTUALITY = DemoTable(
    name="punctuality",
    clauses="FRESHNESS = INTERVAL '10' SECOND REFRESH_MODE = FULL",
    query=f"""SELECT origin, count(*) AS days, sum(flights) AS flights, sum(late) AS late
FROM {NAMESPACE}.daily GROUP BY origin""",
)
TABLES = (DAILY, ROUTES, PUNCTUALITY)


def day(number: int) -> date:
    """Return day *number* of the demo, counted from 0."""
    return FIRST_DAY + timedelta(days=number)


def sources(files: FlightFiles) -> Iterator[str]:
    """Yield the statements that create the source tables, with the first `DAYS_AT_START` days of flights."""
    yield f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}"
    last = day(DAYS_AT_START - 1)
    for source in SOURCES:
        only = f" WHERE ds <= '{last}'" if source == "flights" else ""
        yield (
            f"CREATE TABLE {NAMESPACE}.{source} USING iceberg AS SELECT * "
            f"FROM parquet.`{files.path(source)}`{only}"
        )


def arrival(files: FlightFiles, arriving: date) -> str:
    """Return the statement that inserts the flights of one day."""
    return (
        f"INSERT INTO {NAMESPACE}.flights SELECT * FROM parquet.`{files.path('flights')}` "
        f"WHERE ds = '{arriving}'"
    )
