"""The options of `freshtable status`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from mt_core.base.options import duration_of
from mt_core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """The command line options, one field each."""

    gateways: Annotated[
        list[str] | None,
        typer.Option(
            "--gateway",
            envvar="FRESHTABLE_GATEWAY",
            help=(
                "URL of a gateway; several times. Default: that of the home folder, or http://127.0.0.1:8083."
            ),
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(envvar="FRESHTABLE_TOKEN", help="Bearer token; default: that of the home folder."),
    ] = None
    home: Annotated[
        Path, typer.Option(envvar="FRESHTABLE_HOME", help="The home folder; default ./.freshtable.")
    ] = Path(".freshtable")
    since: Annotated[
        str, typer.Option(help="How long a failed job is reported after its end; 0 s: for ever.")
    ] = "1 d"
    ignored: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="FAULT",
            help=(
                "A cause of lateness to ignore, such as queue (refreshes wait for a worker); several times."
            ),
        ),
    ] = None
    writer: Annotated[
        bool,
        typer.Option(
            "--writer", help="Also report tables that are late because their sources get no new data."
        ),
    ] = False
    timeout: Annotated[str, typer.Option(help="How long a gateway may take to answer.")] = "10 s"
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for monitoring.")] = False

    def duration(self, option: str) -> timedelta:
        """Return the duration of `since` or `timeout`. Raises ConfigError if it cannot be parsed."""
        text = str(getattr(self, option))
        length = duration_of(text)
        if length is None:
            raise ConfigError(f"--{option}: '{text}' is not a duration; use for example '30 min'.")
        return length
