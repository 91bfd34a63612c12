"""The database of a registry: parses its URL and opens an engine with serial transactions."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, Engine, column, create_engine, event, inspect, make_url, select, table
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from mt_core.base.extras import installation
from mt_core.errors import ConfigError
from mt_core.registry.failures import translated
from mt_core.registry.schema import NEWEST

WAIT_S = 30
ASK_AGAIN_S = 0.02
ENCODING = "UTF8"
IDLE_TIMEOUT_S = 60
CONNECT_TIMEOUT_S = 10
# A connection whose peer has disappeared must be closed before the gateway's lease expires. So the server
# must acknowledge what is sent, and answer keepalives while the connection is idle. No statement of the
# gateway takes a minute.
SOCKET_OPTIONS = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 6_000,
}
STATEMENT_TIMEOUT_S = 60
MIGRATIONS = Path(__file__).parent / "migrations"

# PostgreSQL: only the session that holds this advisory lock works on the registry.
ADVISORY_LOCK = 0x46524553_48544142

# Alembic's table, which contains the last migration that was run.
VERSIONS = table("alembic_version", column("version_num"))

# Alembic stores the state of a running migration in module globals.
_migrating = threading.Lock()


def connect(url: str) -> Engine:
    """Return an engine for *url* after migrating the database to the newest schema.

    Raises ConfigError or RegistryError; their messages never contain a password.
    """
    parsed = parse(url)
    engine = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)
    try:
        with translated(shown(parsed)):
            _migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def shown(url: URL) -> str:
    """Return *url* for messages, without its password and its parameters, which may contain a password."""
    return url.set(query={}).render_as_string(hide_password=True)


def parse(url: str) -> URL:
    """Parse *url*, which must denote PostgreSQL, or an SQLite file by its absolute path.

    Raises ConfigError, whose message never contains a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Raised without the cause, which may quote a password.
        raise ConfigError(
            f"The registry's URL ({url.partition(':')[0]}:…) cannot be read; {_WAY_OUT}."
        ) from None
    if parsed.drivername in {"postgresql", "postgresql+psycopg"}:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in {"sqlite", "sqlite+pysqlite"}:
        raise ConfigError(f"Registry {shown(parsed)} is not of a supported kind; {_WAY_OUT}.")
    if parsed.database is None or not Path(parsed.database).is_absolute():
        raise ConfigError(f"Registry {shown(parsed)} does not name a file by its absolute path; {_WAY_OUT}.")
    return parsed


_WAY_OUT = "write sqlite:////absolute/path/registry.db or postgresql://user@host/database"


def _sqlite(url: URL) -> Engine:
    folder = Path(str(url.database)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise ConfigError(
            f"Registry {shown(url)}: folder {folder} cannot be created: {cause.strerror}."
        ) from cause
    engine = create_engine(url, connect_args={"timeout": WAIT_S}, pool_size=1, max_overflow=0)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        # Left alone, the driver begins a transaction only at the first write; `_begin` begins it explicitly.
        connection.isolation_level = None
        write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def write_ahead(connection: sqlite3.Connection) -> None:
    """Turn on write-ahead logging.

    If several connections do this at the same time, SQLite makes all but one fail immediately instead of
    waiting. The statement is therefore repeated for up to `WAIT_S` seconds.
    """
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as busy:
            if busy.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(ASK_AGAIN_S)


def _postgres(url: URL) -> Engine:
    arguments = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "fallback_application_name": "freshtable",
        **SOCKET_OPTIONS,
    }
    try:
        engine = create_engine(
            url,
            connect_args={key: value for key, value in arguments.items() if key not in url.query},
            isolation_level="READ COMMITTED",
            pool_size=1,
            max_overflow=0,
            pool_pre_ping=True,
        )
    except (ModuleNotFoundError, NoSuchModuleError) as cause:
        raise ConfigError(f"Registry {shown(url)} needs psycopg; {installation('postgres')}.") from cause

    @event.listens_for(engine, "connect", insert=True)
    def _prepare(connection: Any, _record: object) -> None:
        # This check must come before any read, because texts from a database with another encoding arrive as
        # bytes.
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != ENCODING:
            raise ConfigError(
                f"Registry {shown(url)} has the encoding {encoding}, which cannot represent all texts; "
                f"create another database: CREATE DATABASE name ENCODING '{ENCODING}' TEMPLATE template0."
            )
        # Without these limits, a process that hangs in a transaction would block the others forever.
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{WAIT_S}s'")
            cursor.execute(f"SET statement_timeout = '{STATEMENT_TIMEOUT_S}s'")
            cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_S}s'")
        connection.commit()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # READ COMMITTED takes a new snapshot for each statement. The lock is acquired first, so a transaction
        # sees all changes of the previous lock holders. Transactions are therefore serial, and the database
        # never aborts one in favor of another.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")

    return engine


def _migrate(engine: Engine) -> None:
    with engine.begin() as connection:
        migrated = inspect(connection).has_table(VERSIONS.name)
        if migrated and connection.execute(select(VERSIONS.c.version_num)).scalar_one_or_none() == NEWEST:
            return
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with _migrating, engine.begin() as connection:
        config.attributes["connection"] = connection
        if connection.dialect.name == "postgresql":
            # A migration may change a million rows.
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        try:
            command.upgrade(config, "head")
        except CommandError as cause:
            raise ConfigError(
                f"Registry {shown(engine.url)} was written by a newer release; install that release: {cause}."
            ) from cause
