"""Translates Flink's connectors and their WITH options to Spark's data sources.

Flink names a connector and its options. Spark names a provider, its OPTIONS, and the table's own properties
and location. This module maps the former to the latter for connectors that store rows, and lists the
connectors that do not. It neither opens a connection nor checks that a path or a driver exists; Spark reports
such errors when it uses the table. Options with a different name in Spark are renamed. Unknown options of
files and JDBC are passed on, because Spark's sources define many more of them. The options of sinks are all
known, so an unknown one is refused. To add a connector, add a function to `_CONNECTORS`, and its options to
`option_names` for completion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.sql.connectors.generated_rows import GENERATED_OPTIONS
from mt_core.sql.connectors.kafka_options import TOPIC_OPTIONS

FORMATS = ("parquet", "orc", "csv", "json", "text")
SINKS = ("print", "blackhole")
KAFKA, UPSERT_KAFKA = "kafka", "upsert-kafka"
TOPICS = (KAFKA, UPSERT_KAFKA)
STREAMING_CONNECTORS = ("datagen", "rate", *SINKS, *TOPICS)
"""Connectors whose tables store no rows: they generate rows, receive those of a stream, or use Kafka."""
SUPPORTED = (*FORMATS, "filesystem", "iceberg", "jdbc", *STREAMING_CONNECTORS)
_SINK_OPTIONS: Mapping[str, tuple[str, ...]] = {"print": ("print-identifier",), "blackhole": ()}
_SQL_TIMESTAMP = "yyyy-MM-dd HH:mm:ss[.SSSSSS]"
_CSV = {
    "field-delimiter": "sep",
    "quote-character": "quote",
    "escape-character": "escape",
    "null-literal": "nullValue",
}
_JDBC = {
    "table-name": "dbtable",
    "username": "user",
    "scan.fetch-size": "fetchsize",
    "scan.partition.column": "partitionColumn",
    "scan.partition.num": "numPartitions",
    "scan.partition.lower-bound": "lowerBound",
    "scan.partition.upper-bound": "upperBound",
    "sink.buffer-flush.max-rows": "batchsize",
}
_OTHER_CATALOG = (
    "catalog-name",
    "catalog-type",
    "catalog-impl",
    "catalog-database",
    "catalog-table",
    "uri",
    "warehouse",
)
_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "sqlite": "org.sqlite.JDBC",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
    "duckdb": "org.duckdb.DuckDBDriver",
    "clickhouse": "com.clickhouse.jdbc.ClickHouseDriver",
    "snowflake": "net.snowflake.client.jdbc.SnowflakeDriver",
    "trino": "io.trino.jdbc.TrinoDriver",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The data source of a table: `provider` and its `options`, and the table's `properties` and `location`.

    `provider` is the name after USING, or None for the catalog's own format.
    """

    provider: str | None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None


def source_of(table: str, options: Mapping[str, str]) -> Source:
    """Return the data source for the WITH *options* of *table*.

    Raises Unsupported or DefinitionInvalid naming the option.
    """
    if "connector" not in options:
        return Source(provider=None, properties=options)
    connector = options["connector"].lower()
    rest = {key: value for key, value in options.items() if key != "connector"}
    if connector in FORMATS:
        return Source(provider=connector, options=_format_options(connector, rest))
    make = _CONNECTORS.get(connector)
    if make is None:
        raise Unsupported(
            f"Table {table}: connector '{options['connector']}' is not supported; "
            f"supported are {', '.join(SUPPORTED)}. "
            "For any other data source of Spark, use Spark's CREATE TABLE … USING."
        )
    return make(table, rest)


def check_sink(table: str, options: Mapping[str, str], columns: Collection[str]) -> None:
    """Raise DefinitionInvalid if a sink table has no *columns* or an unknown option."""
    connector = options["connector"].lower()
    if not columns:
        raise DefinitionInvalid(
            f"Table {table}: connector '{connector}' needs columns; write them after the name."
        )
    for key in options:
        if key not in ("connector", *_SINK_OPTIONS[connector]):
            way_out = (
                f"its only option is {', '.join(_SINK_OPTIONS[connector])}"
                if _SINK_OPTIONS[connector]
                else "it has no options"
            )
            raise DefinitionInvalid(
                f"Table {table}: connector '{connector}' has no option '{key}'; {way_out}."
            )


def _filesystem(table: str, options: dict[str, str]) -> Source:
    declared_format = _required(table, "filesystem", options, "format")
    if declared_format.lower() not in FORMATS:
        raise Unsupported(
            f"Table {table}: format '{declared_format}' is not supported; supported are {', '.join(FORMATS)}."
        )
    _required(table, "filesystem", options, "path")
    rest = {key: value for key, value in options.items() if key != "format"}
    return Source(provider=declared_format.lower(), options=_format_options(declared_format.lower(), rest))


def _iceberg(table: str, options: dict[str, str]) -> Source:
    for key in _OTHER_CATALOG:
        if key in options:
            raise Unsupported(
                f"Table {table}: option '{key}' of connector 'iceberg' is not supported; "
                "CREATE CATALOG … WITH ('type' = 'iceberg', …) gives access to all tables of that catalog."
            )
    properties = {key: value for key, value in options.items() if key != "path"}
    return Source(provider="iceberg", properties=properties, location=options.get("path"))


def _jdbc(table: str, options: dict[str, str]) -> Source:
    for key in ("url", "table-name"):
        _required(table, "jdbc", options, key)
    return Source(
        provider="jdbc", options=with_driver({_JDBC.get(key, key): value for key, value in options.items()})
    )


def with_driver(options: Mapping[str, str]) -> dict[str, str]:
    """Add the driver class to JDBC *options*, because Spark cannot infer it from the URL.

    A driver that the options already name is kept.
    """
    _, _, rest = options.get("url", "").partition(":")
    driver = _DRIVERS.get(rest.partition(":")[0].lower())
    return {**options, "driver": options.get("driver", driver)} if driver else dict(options)


def _required(table: str, connector: str, options: Mapping[str, str], key: str) -> str:
    if key not in options:
        raise DefinitionInvalid(
            f"Table {table}: connector '{connector}' needs the option '{key}'; add it to WITH (…)."
        )
    return options[key]


_CONNECTORS: Mapping[str, Callable[[str, dict[str, str]], Source]] = {
    "filesystem": _filesystem,
    "iceberg": _iceberg,
    "jdbc": _jdbc,
}


def option_names(connector: str) -> tuple[str, ...]:
    """Return the options of a connector's tables, without options whose names contain a column name."""
    match connector:
        case "kafka" | "upsert-kafka":
            return TOPIC_OPTIONS[connector]
        case "print" | "blackhole":
            return _SINK_OPTIONS[connector]
        case "jdbc":
            return ("url", "driver", "password", *_JDBC)
        case "filesystem":
            return ("path", "format")
        case "datagen" | "rate":
            return GENERATED_OPTIONS[connector]
        case "iceberg":
            return ("path",)
        case _:
            return ("path",) if connector in FORMATS else ()


def _format_options(provider: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a file format, with Flink's names translated to Spark's.

    All other options remain unchanged.
    """
    translated: dict[str, str] = {}
    for key, value in options.items():
        translated |= _format_option(provider, key.removeprefix(f"{provider}."), value)
    return translated


def _format_option(provider: str, key: str, value: str) -> dict[str, str]:
    match provider, key, value.lower():
        case ("csv" | "json", "ignore-parse-errors", choice):
            return {"mode": "DROPMALFORMED" if choice == "true" else "FAILFAST"}
        case "csv", "allow-comments", choice:
            return {"comment": "#"} if choice == "true" else {}
        case "csv", "disable-quote-character", choice:
            return {"quote": ""} if choice == "true" else {}
        case "json", "timestamp-format.standard", choice:
            return (
                {"timestampFormat": _SQL_TIMESTAMP, "timestampNTZFormat": _SQL_TIMESTAMP}
                if choice == "sql"
                else {}
            )
        case _:
            return {_CSV.get(key, key) if provider == "csv" else key: value}
