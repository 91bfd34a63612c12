"""The database of a registry: parses its URL and opens engines, one with serial transactions, one to read."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, Engine, column, create_engine, event, inspect, make_url, select, table
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from mt_core.base.extras import installation
from mt_core.errors import ConfigError
from mt_core.registry.failures import translated
from mt_core.registry.schema import NEWEST

WAIT_S = 30
ASK_AGAIN_S = 0.02
# The connections that read at the same time; a further read waits for one of them.
READERS = 4
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


def connect(url: str, *, migrate: bool = True) -> Engine:
    """Return an engine for *url* after creating the schema, or migrating it to the newest one.

    If *migrate* is false, the schema of an earlier release is left as it is. Raises ConfigError or
    RegistryError; their messages never contain a password.
    """
    parsed = parse(url)
    engine = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _postgres(parsed)
    try:
        with translated(shown(parsed)), engine.begin() as connection:
            if migrate or migration_of(connection) is None:
                upgrade(connection)
            else:
                check_known(connection)
    except BaseException:
        engine.dispose()
        raise
    return engine


def reader(url: URL) -> Engine:
    """Return an engine for the database at *url* whose connections cannot write and wait for no transaction.

    All reads of a transaction see the same state. The engine connects when it is used first.
    """
    return _sqlite_reader(url) if url.get_backend_name() == "sqlite" else _postgres_reader(url)


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
    _begin_by(engine, "BEGIN IMMEDIATE")

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")

    return engine


def _sqlite_reader(url: URL) -> Engine:
    arguments = {"timeout": WAIT_S}
    engine = create_engine(read_only_file(url), connect_args=arguments, pool_size=READERS, max_overflow=0)
    _begin_by(engine, "BEGIN")
    return engine


def read_only_file(url: URL) -> str:
    """Return a URL that opens the SQLite file of *url* read-only; a missing file is not created."""
    return f"sqlite:///file:{quote(str(url.database))}?mode=ro&uri=true"


def _begin_by(engine: Engine, statement: str) -> None:
    """Let *engine* begin transactions with *statement*; left alone, the driver begins one at a write."""

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)


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
    engine = _postgres_engine(url, isolation_level="READ COMMITTED", pool_size=1)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # READ COMMITTED takes a new snapshot for each statement. The lock is acquired first, so a transaction
        # sees all changes of the previous lock holders. Transactions are therefore serial, and the database
        # never aborts one in favor of another.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")

    return engine


def _postgres_reader(url: URL) -> Engine:
    engine = _postgres_engine(url, isolation_level="REPEATABLE READ", pool_size=READERS)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        connection.read_only = True

    return engine


def _postgres_engine(url: URL, *, isolation_level: Any, pool_size: int) -> Engine:
    arguments = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "fallback_application_name": "freshtable",
        **SOCKET_OPTIONS,
    }
    try:
        engine = create_engine(
            url,
            connect_args={key: value for key, value in arguments.items() if key not in url.query},
            isolation_level=isolation_level,
            pool_size=pool_size,
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

    return engine


def migration_of(connection: Connection) -> str | None:
    """Return the last migration of the database, or None if it is not a registry."""
    migrated = inspect(connection).has_table(VERSIONS.name)
    return connection.execute(select(VERSIONS.c.version_num)).scalar_one_or_none() if migrated else None


def upgrade(connection: Connection) -> None:
    """Migrate the database to the newest schema within the transaction of *connection*.

    Raises ConfigError if a newer release has written it.
    """
    if migration_of(connection) == NEWEST:
        return
    config = _alembic()
    config.attributes["connection"] = connection
    if connection.dialect.name == "postgresql":
        # A migration may change a million rows.
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    with _migrating, _refused_if_newer(connection):
        command.upgrade(config, "head")


def check_known(connection: Connection) -> None:
    """Raise ConfigError if a newer release has migrated the database."""
    migration = migration_of(connection)
    if migration not in (None, NEWEST):
        with _refused_if_newer(connection):
            ScriptDirectory.from_config(_alembic()).get_revision(migration)


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


@contextmanager
def _refused_if_newer(connection: Connection) -> Iterator[None]:
    try:
        yield
    except CommandError as cause:
        raise ConfigError(
            f"Registry {shown(connection.engine.url)} was written by a newer release; "
            f"install that release: {cause}."
        ) from cause
