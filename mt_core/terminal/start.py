"""The start of the client, which opens and sets up a session from the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from mt_core.base.identifiers import sql_name
from mt_core.client.home import DEFAULT_HOME, token_in
from mt_core.client.http import GatewayClient
from mt_core.errors import ConfigError, MtError
from mt_core.terminal.configuration import ClientConfiguration
from mt_core.terminal.display import Display, check_keys
from mt_core.terminal.options import read_text
from mt_core.terminal.script import Runner, first_read

DEFAULT_GATEWAY = "http://127.0.0.1:8083"


def connect(configuration: ClientConfiguration, environ: Mapping[str, str]) -> GatewayClient:
    """Return a client with an open session that is set up.

    Raises GatewayError, or ConfigError for an invalid client property.
    """
    _check(configuration)
    gateway = configuration.gateway or DEFAULT_GATEWAY
    token = configuration.token or token_in(Path(environ.get("FRESHTABLE_HOME", DEFAULT_HOME)), gateway)
    client = GatewayClient(gateway, token, exact=True)
    try:
        client.open_session(configuration.session, configuration.properties, _setup(configuration))
    except MtError:
        client.close()
        raise
    return client


def prepare(
    configuration: ClientConfiguration, gateway: str, transport: httpx.BaseTransport
) -> GatewayClient:
    """Return a client that opens its session through *transport* with the first call that needs it.

    Raises ConfigError.
    """
    _check(configuration)
    client = GatewayClient(gateway, exact=True, transport=transport)
    client.prepare_session(configuration.session, configuration.properties, _setup(configuration))
    return client


def _check(configuration: ClientConfiguration) -> None:
    """Raise ConfigError if a client property is invalid."""
    check_keys(configuration.properties)
    Display.of(configuration.properties)


def _setup(configuration: ClientConfiguration) -> Sequence[str]:
    """Return the statements that set up each session of the client, including a reopened one."""
    catalog, schema = configuration.catalog, configuration.schema
    # Opening a session accepts any property, whereas SET rejects invalid ones and suggests similar names.
    statements = [f"SET {_text(key)} = {_text(value)}" for key, value in configuration.properties.items()]
    statements += [f"ADD JAR {_text(jar)}" for jar in configuration.jars]
    if schema is not None:
        statements.append(f"USE {sql_name(name for name in (catalog, schema) if name is not None)}")
    elif catalog is not None:
        statements.append(f"USE CATALOG {sql_name([catalog])}")
    return statements


def _text(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def run_init_files(runner: Runner, files: Sequence[str]) -> MtError | None:
    """Run the statements of *files*. Return the error that stopped them, which has been shown, or None.

    Raises ConfigError before running anything if a file cannot be read or contains a query or an INSERT.
    """
    scripts = [(file, read_text(Path(file))) for file in files]
    for file, script in scripts:
        if (statement := first_read(script)) is not None:
            raise ConfigError(
                f"{file}, line {statement.line}: an init file must not contain a query "
                "or an INSERT; run them with -f or -e."
            )
    for _, script in scripts:
        if (error := runner.run_script(script)) is not None:
            return error
    return None
