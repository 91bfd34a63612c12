"""The command line `freshtable`; each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mt_core.client.terminal.options import SqlOptions, read_text
from mt_core.command_options import taking

if TYPE_CHECKING:
    from mt_core.plans.compiled import CompiledPlan

PLAIN_WIDTH = 128

app = typer.Typer(
    name="freshtable",
    help="Materialized tables that keep themselves fresh, on Spark and Iceberg.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
jars = typer.Typer(help="Jars that Spark needs for a connector.", no_args_is_help=True)
app.add_typer(jars, name="jars")
plan = typer.Typer(help="Compiled plans of streaming and batch jobs.", no_args_is_help=True)
app.add_typer(plan, name="plan")


def _show_version(requested: bool) -> None:
    from mt_core import __version__

    if requested:
        _say(f"freshtable {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Materialized tables that keep themselves fresh, on Spark and Iceberg."""


@app.command()
@taking(SqlOptions)
def sql(options: SqlOptions) -> None:
    """Run SQL statements on a gateway: from -e, a file or standard input, up to the first error; on a terminal, at a prompt."""
    import os

    from mt_core.client.terminal.run import run_sql

    raise typer.Exit(run_sql(options, os.environ))


@app.command()
def gateway(
    config: Annotated[Path | None, typer.Option("-c", "--config", help="A YAML file of settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting; may be given several times.")
    ] = None,
    home: Annotated[Path | None, typer.Option(help="The home folder; default ./.freshtable.")] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print every log event on stderr.")] = False,
) -> None:
    """Run the gateway with its scheduler and Spark, until it is stopped by SIGTERM or Ctrl-C."""
    import os

    from mt_core.config import load_config
    from mt_core.errors import MtError
    from mt_core.extras import requiring

    try:
        with requiring("gateway", "freshtable gateway"):
            from mt_core.app.serve import serve
        configuration = load_config(config, os.environ, settings or (), home)
        raise typer.Exit(serve(configuration, os.environ, _say, note=_note, verbose=verbose))
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the gateway running at the end.")] = False,
) -> None:
    """Run the main job on real flights and check every answer; about two minutes."""
    from rich.console import Console

    from mt_core.errors import ConfigError
    from mt_core.extras import requiring

    try:
        with requiring("demo", "freshtable demo"):
            from mt_core.demo.run import run_demo
    except ConfigError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    raise typer.Exit(run_demo(console, keep=keep))


@jars.command("add")
def add_jars(
    connector: Annotated[str, typer.Argument(help="The connector, such as kafka.")],
) -> None:
    """Fetch the jars of a connector for the gateways of this machine; a gateway that runs needs no restart."""
    import os

    from mt_core.errors import MtError
    from mt_core.spark.jars import add_connector

    try:
        found = add_connector(connector, os.environ)
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    _say(f"Jars of {connector}: {len(found)} in {found[0].parent}")


@plan.command("diff")
def diff_plans(
    before: Annotated[Path, typer.Argument(help="The file of a plan.")],
    after: Annotated[Path, typer.Argument(help="The file of another.")],
) -> None:
    """Print what differs in two compiled plans, a line each; exit 0 if nothing does, 1 if they differ, 2 on an error."""
    from mt_core.errors import MtError
    from mt_core.plans.differences import differences

    try:
        found = [str(each) for each in differences(_plan_of(before), _plan_of(after))]
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    for line in found:
        _say(line)
    raise typer.Exit(1 if found else 0)


def _plan_of(file: Path) -> CompiledPlan:
    from mt_core.plans.errors import PlanInvalid
    from mt_core.plans.json_form import read_plan

    try:
        return read_plan(read_text(file))
    except PlanInvalid as error:
        raise error.of(str(file)) from error


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()


def _note(line: str) -> None:
    typer.echo(line, err=True)
