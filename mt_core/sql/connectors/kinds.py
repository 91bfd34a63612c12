"""Connectors of Flink's tables as Spark's data sources: pure translation of WITH options."""

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
"""Those of tables that store no rows: they generate them, take those of a stream, or find them in Kafka."""
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
    """The data source of a table: `provider` for USING, `options` of the source,
    `properties` and `location` of the table.

    `provider` is None for a table of its catalog's own kind.
    """

    provider: str | None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None


def source_of(table: str, options: Mapping[str, str]) -> Source:
    """Return what the WITH *options* of *table* mean to Spark; raises Unsupported,
    DefinitionInvalid naming the option.
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
            "For another data source that Spark knows write Spark's CREATE TABLE … USING."
        )
    return make(table, rest)


def check_sink(table: str, options: Mapping[str, str], columns: Collection[str]) -> None:
    """Raise DefinitionInvalid for a table that only takes rows and has no *columns*,
    or an option that does not exist.
    """
    connector = options["connector"].lower()
    if not columns:
        raise DefinitionInvalid(
            f"Table {table}: connector '{connector}' needs columns; write them after the name."
        )
    for key in options:
        if key not in ("connector", *_SINK_OPTIONS[connector]):
            known = (
                f"there is {', '.join(_SINK_OPTIONS[connector])} only"
                if _SINK_OPTIONS[connector]
                else "it has none"
            )
            raise DefinitionInvalid(f"Table {table}: connector '{connector}' has no option '{key}'; {known}.")


def _filesystem(table: str, options: dict[str, str]) -> Source:
    written = _required(table, "filesystem", options, "format")
    if written.lower() not in FORMATS:
        raise Unsupported(
            f"Table {table}: format '{written}' is not supported; supported are {', '.join(FORMATS)}."
        )
    _required(table, "filesystem", options, "path")
    rest = {key: value for key, value in options.items() if key != "format"}
    return Source(provider=written.lower(), options=_format_options(written.lower(), rest))


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
    """Return JDBC *options* with the class of the driver, which Spark cannot infer from the URL;
    an explicit one wins.
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
    """Return the names of options that tables of *connector* take, without those that have a name
    of the user's in them.
    """
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
    """Return options of a file format with Flink's names translated to Spark's, and all others unchanged."""
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
