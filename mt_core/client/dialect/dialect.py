"""The SQLAlchemy dialect: connections and capabilities."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sqlalchemy.engine import URL, Connection
from sqlalchemy.sql.compiler import IdentifierPreparer
from sqlalchemy.sql.schema import Table

from mt_core.client import dbapi
from mt_core.client.dialect.compiler import SparkCompiler, SparkDDLCompiler, SparkIdentifierPreparer
from mt_core.client.dialect.reflection import SparkReflection
from mt_core.client.dialect.types import SparkTypeCompiler

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8083
_LOST = {"SESSION_LOST", "GATEWAY_FAILED"}


class FreshtableDialect(SparkReflection):
    """Spark SQL through the gateway. Every statement commits itself.

    There are no transactions, no keys and no RETURNING. The URL is
    `freshtable://host:port/catalog/schema?token=…`; `secure=true` selects https, and all other parameters are
    session properties.
    """

    name, driver = "freshtable", "gateway"
    default_paramstyle = "qmark"
    statement_compiler = SparkCompiler
    ddl_compiler = SparkDDLCompiler
    type_compiler_cls = SparkTypeCompiler
    preparer: type[IdentifierPreparer] = SparkIdentifierPreparer
    construct_arguments = [  # noqa: RUF012 - SQLAlchemy asks for a list
        (Table, {"using": "iceberg", "partitioned_by": None, "tblproperties": None})
    ]

    supports_statement_cache = True
    supports_alter = False
    supports_comments = True
    inline_comments = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_enum = False
    supports_multivalues_insert = True
    supports_default_values = False
    supports_empty_insert = False
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_is_distinct_from = True
    supports_sequences = False
    postfetch_lastrowid = False
    implicit_returning = False
    use_insertmanyvalues = False
    cte_follows_insert = True
    div_is_floordiv = False
    requires_name_normalize = False
    max_identifier_length = 255
    default_isolation_level = "AUTOCOMMIT"

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        query = {key: value if isinstance(value, str) else value[-1] for key, value in url.query.items()}
        scheme = "https" if query.pop("secure", "false").lower() in {"true", "1"} else "http"
        host = url.host or DEFAULT_HOST
        address = f"[{host}]" if ":" in host else host
        catalog, _, schema = (url.database or "").strip("/").partition("/")
        options = {
            "token": query.pop("token", None) or url.password,
            "catalog": catalog or None,
            "schema": schema or None,
            "properties": query,
        }
        return [f"{scheme}://{address}:{url.port or DEFAULT_PORT}"], options

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Do nothing, because SQLAlchemy rolls back each connection that it returns to the pool."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        dbapi_connection.ping()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        closed = isinstance(e, dbapi.InterfaceError) and "connection is closed" in str(e)
        return closed or (isinstance(e, dbapi.OperationalError) and e.code in _LOST)

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[Any]:
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Do nothing, because SQLAlchemy itself rejects levels other than AUTOCOMMIT."""

    def _get_default_schema_name(self, connection: Connection) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar_one())
