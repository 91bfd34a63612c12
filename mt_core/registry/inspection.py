"""Read-only inspection of a database: whether it is reachable, and which tables and migration it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, inspect
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import NullPool

from mt_core.base.extras import installation
from mt_core.errors import ConfigError
from mt_core.registry.database import migration_of, parse, read_only_file, shown
from mt_core.registry.failures import translated


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """The state of a database.

    `migration` is the last migration that was run, None if the database is not a registry. `name` contains no
    password.
    """

    name: str
    exists: bool
    tables: frozenset[str] = frozenset()
    migration: str | None = None


def inspect_database(url: str, timeout_s: int) -> DatabaseState:
    """Return the state of the database at *url* without creating or migrating it.

    A missing SQLite file is reported as a database that does not exist. Raises ConfigError for an invalid
    URL, and RegistryError if the database fails or does not respond within *timeout_s* seconds.
    """
    parsed = parse(url)
    name = shown(parsed)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists():
        return DatabaseState(name=name, exists=False)
    engine = _reader(parsed, timeout_s)
    try:
        with translated(name), engine.connect() as connection:
            tables = frozenset(inspect(connection).get_table_names())
            migration = migration_of(connection)
    finally:
        engine.dispose()
    return DatabaseState(name=name, exists=True, tables=tables, migration=migration)


def _reader(url: URL, timeout_s: int) -> Engine:
    if url.get_backend_name() == "sqlite":
        # The file is opened read-only: nothing is created, and no lock remains that could block a gateway.
        arguments = {"timeout": timeout_s}
        return create_engine(read_only_file(url), connect_args=arguments, poolclass=NullPool)
    settings = {"connect_timeout": timeout_s, "options": "-c default_transaction_read_only=on"}
    try:
        return create_engine(
            url,
            connect_args={key: value for key, value in settings.items() if key not in url.query},
            poolclass=NullPool,
        )
    except (ModuleNotFoundError, NoSuchModuleError) as cause:
        raise ConfigError(f"Registry {shown(url)} needs psycopg; {installation('postgres')}.") from cause
