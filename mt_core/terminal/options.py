"""The options of `freshtable sql`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mt_core.client.home import DEFAULT_HOME
from mt_core.errors import ConfigError
from mt_core.terminal.configuration import ClientConfiguration, read_assignments, read_files
from mt_core.terminal.output.form import Form

FORMATS = tuple(Form)
GATEWAY_VARIABLE = "FRESHTABLE_GATEWAY"


@dataclass(frozen=True, kw_only=True)
class SqlOptions:
    """The options of the command line, one field each. A field is None if its option was not given."""

    execute: Annotated[
        list[str] | None,
        typer.Option("-e", "--execute", help="A statement to run; may be given several times."),
    ] = None
    file: Annotated[Path | None, typer.Option("-f", "--file", help="A file of statements to run.")] = None
    go_on: Annotated[
        bool, typer.Option("--continue", help="Continue after a failed statement; exit 1 at the end.")
    ] = False
    init: Annotated[
        list[str] | None,
        typer.Option("-i", "--init", help="A file of statements that set up the session; several times."),
    ] = None
    properties: Annotated[
        list[str] | None,
        typer.Option("-D", metavar="KEY=VALUE", help="A property of the session; several times."),
    ] = None
    jars: Annotated[
        list[str] | None, typer.Option("-j", "--jar", help="A jar, which the gateway reads; several times.")
    ] = None
    gateway: Annotated[
        str | None,
        typer.Option(envvar=GATEWAY_VARIABLE, help="URL of the gateway; default http://127.0.0.1:8083."),
    ] = None
    embedded: Annotated[
        bool,
        typer.Option(
            "--embedded", help="Use the gateway of the home folder, starting it if it does not run."
        ),
    ] = False
    home: Annotated[
        Path | None,
        typer.Option(help="With --embedded: the home folder; default $FRESHTABLE_HOME, or ./.freshtable."),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(envvar="FRESHTABLE_TOKEN", help="Bearer token; default: that of the home folder."),
    ] = None
    catalog: Annotated[str | None, typer.Option("--catalog", help="The catalog to begin in.")] = None
    schema: Annotated[str | None, typer.Option("--schema", help="The schema to begin in.")] = None
    session: Annotated[str | None, typer.Option("-s", "--session", help="A name for the session.")] = None
    config: Annotated[
        Path | None,
        typer.Option("--config", help="A file of settings, over ~/.config/freshtable/client.yaml."),
    ] = None
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="FILE", help="A file for the history of the prompt, instead of the user's."
        ),
    ] = None
    format: Annotated[
        str | None, typer.Option("--format", help=f"How rows are printed: {', '.join(FORMATS)}.")
    ] = None
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file for the rows, instead of standard output.")
    ] = None

    def script(self) -> str | None:
        """Return the statements of the command line or of standard input.

        Return None if statements will be typed at a prompt. Raises ConfigError.
        """
        if self.execute and self.file:
            raise ConfigError("-e and -f cannot be used together; put the statements of -e into the file.")
        if self.execute:
            return "\n;\n".join(self.execute)
        if self.file is not None:
            return read_text(self.file)
        return None if sys.stdin.isatty() else sys.stdin.read()

    def embedded_home(self, environ: Mapping[str, str]) -> Path | None:
        """Return the home folder whose gateway is used, or None without --embedded. Raises ConfigError."""
        if not self.embedded:
            if self.home is not None:
                raise ConfigError(
                    "--home requires --embedded; use --gateway for a gateway that already runs."
                )
            return None
        # --embedded overrides the environment variable, but conflicts with an explicit --gateway.
        if self.gateway is not None and self.gateway != environ.get(GATEWAY_VARIABLE):
            raise ConfigError("--embedded and --gateway cannot be used together; leave out one of them.")
        return self.home or Path(environ.get("FRESHTABLE_HOME", DEFAULT_HOME))

    def configuration(self, own_file: Path) -> ClientConfiguration:
        """Return the configuration: the options, with the configuration files as their defaults.

        Raises ConfigError naming an option or a key.
        """
        options = ClientConfiguration(
            gateway=self.gateway,
            token=self.token,
            session=self.session,
            catalog=self.catalog,
            schema=self.schema,
            format=self.format,
            history=self.history,
            init=tuple(self.init or ()),
            jars=tuple(self.jars or ()),
            properties=read_assignments(self.properties or ()),
        )
        configuration = options.over(read_files(own_file, self.config))
        if configuration.format not in {None, *FORMATS}:
            raise ConfigError(
                f"There is no format {configuration.format}; the formats are {', '.join(FORMATS)}."
            )
        if (
            configuration.format is not None
            and Form(configuration.format).is_columnar
            and self.output is None
        ):
            raise ConfigError(
                f"--format {configuration.format} needs -o FILE: "
                "this format cannot be written to a terminal or a pipe."
            )
        return configuration


def read_text(file: Path) -> str:
    """Return the text of *file*. Raises ConfigError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(f"{file} cannot be read: {cause}") from cause
