"""The command line `freshtable`.

A command must start fast, above all `sql`, and must work in a partial installation: the client alone has
neither Spark nor a database driver. This module therefore imports only what parsing the options needs, and
each command imports its implementation when it runs. `requiring` turns a missing package into a message that
names the extra to install. Commands do only three things: parse options, call one function of the
implementation, and map errors to exit codes. Messages go to stdout, errors to stderr. The exit code is 0 for
success and 1 for failures and findings. `status` and `plan diff` exit with 2 on an error, because 1 means a
finding there. `sql` has its own codes (`ExitCode`).
"""

from __future__ import annotations

import gc
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mt_core.base.command_options import with_options
from mt_core.client.home import TRY_AGAIN
from mt_core.setup.status_options import StatusOptions
from mt_core.terminal.options import SqlOptions, read_text

if TYPE_CHECKING:
    from mt_core.plans.compiled import CompiledPlan

PLAIN_WIDTH = 128
# A gateway that stops lets running publishes finish (up to 30 s), and then stops Spark.
STOP_WAIT_S = 120.0
OBJECTS_PER_COLLECTION = 50_000

app = typer.Typer(
    name="freshtable",
    help="Materialized tables that keep themselves fresh, on Spark and Iceberg.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
jars = typer.Typer(help="Jars that Spark needs for a connector or a store.", no_args_is_help=True)
app.add_typer(jars, name="jars")
gateways = typer.Typer(invoke_without_command=True)
app.add_typer(gateways, name="gateway")
plan = typer.Typer(help="Compiled plans of streaming and batch jobs.", no_args_is_help=True)
app.add_typer(plan, name="plan")


class DemoCatalog(StrEnum):
    """The catalogs of `freshtable demo`."""

    JDBC = "jdbc"
    REST = "rest"


def _show_version(requested: bool) -> None:
    from mt_core import __version__

    if requested:
        _say(f"freshtable {__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Materialized tables that keep themselves fresh, on Spark and Iceberg."""
    if context.invoked_subcommand == "sql":
        # Imported modules are never garbage. Collections while they load would take a tenth of the client's
        # start.
        gc.set_threshold(OBJECTS_PER_COLLECTION)


@app.command()
@with_options(SqlOptions)
def sql(options: SqlOptions) -> None:
    """Run SQL statements on a gateway: from -e, a file or standard input, up to the first error; on a
    terminal, at a prompt.
    """
    import os

    # httpx imports its own command line, with all of pygments if it is installed. This would take a sixth of
    # the client's start.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

    from mt_core.terminal.run import run_sql

    raise typer.Exit(run_sql(options, os.environ))


ConfigFile = Annotated[Path | None, typer.Option("-c", "--config", help="A YAML file of settings.")]
HomeFolder = Annotated[Path | None, typer.Option(help="The home folder; default ./.freshtable.")]


@gateways.callback()
def gateway(
    context: typer.Context,
    config: ConfigFile = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("-D", metavar="KEY=VALUE", help="A setting; may be given several times."),
    ] = None,
    home: HomeFolder = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print every log event on stderr.")
    ] = False,
    without_functions: Annotated[
        bool, typer.Option("--without-functions", help="Do not run function code; streaming jobs wait.")
    ] = False,
) -> None:
    """Run the gateway with its scheduler and Spark, until it is stopped by SIGTERM or Ctrl-C."""
    import os

    from mt_core.base.extras import requiring
    from mt_core.config import load_config
    from mt_core.errors import HomeLocked, MtError

    is_embedded = False
    try:
        chosen = [*(settings or ()), *(["sql-gateway.functions.enabled=false"] if without_functions else ())]
        configuration = load_config(config, os.environ, chosen, home)
        is_embedded = configuration.boolean("sql-gateway.embedded")
        if context.invoked_subcommand is not None:
            context.obj = configuration
            return
        with requiring("gateway", "freshtable gateway"):
            from mt_core.app.serve import serve
        raise typer.Exit(serve(configuration, os.environ, _say, note=_note, verbose=verbose))
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(TRY_AGAIN if is_embedded and isinstance(error, HomeLocked) else 1) from error


@gateways.command("stop")
def stop_gateway(context: typer.Context, home: HomeFolder = None) -> None:
    """Stop the gateway of a home folder and wait until it has exited; running publishes finish."""
    from mt_core.base.extras import requiring
    from mt_core.errors import MtError

    try:
        with requiring("gateway", "freshtable gateway stop"):
            from mt_core.app.home import Home
        folder = home or context.obj.home
        _say(f"The gateway on {folder} has stopped (process {Home(folder).stop_holder(STOP_WAIT_S)}).")
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the gateway running at the end.")] = False,
    catalog: Annotated[
        DemoCatalog,
        typer.Option(
            "--catalog",
            help="Where the tables are: jdbc in a local folder, rest in an object store with a REST catalog.",
        ),
    ] = DemoCatalog.JDBC,
) -> None:
    """Run the main job on real flights and check every answer; about two minutes."""
    from rich.console import Console

    from mt_core.base.extras import requiring
    from mt_core.errors import ConfigError

    try:
        with requiring("demo", "freshtable demo"):
            from mt_core.demo.run import run_demo
        if catalog is DemoCatalog.REST:
            _check_store()
    except ConfigError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    raise typer.Exit(
        run_demo(console, keep=keep, store_environ=os.environ if catalog is DemoCatalog.REST else None)
    )


def _check_store() -> None:
    """Raise ConfigError if this machine lacks something that the demo with an object store needs."""
    from mt_core.demo.object_store import find_program
    from mt_core.errors import ConfigError
    from mt_core.spark.driver.jars import JAR_SETS, default_jars_dir, local_jars

    find_program()
    if local_jars(default_jars_dir(os.environ), JAR_SETS["aws"].packages) is None:
        raise ConfigError("Spark lacks the jars for tables on S3: freshtable jars add aws")


@app.command()
def doctor(
    home: Annotated[Path | None, typer.Option(help="The home folder; default ./.freshtable.")] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="The gateway's YAML file of settings.")
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(help="Check what this catalog can do, with a scratch table, in a Spark of its own."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="The namespace of the scratch table; the catalog's default namespace.")
    ] = None,
) -> None:
    """Check what a gateway needs here: a line each, and for a problem the command that fixes it; exit 0 if
    there is none.
    """
    import os

    from mt_core.base.extras import requiring
    from mt_core.clock import SystemClock
    from mt_core.config import load_config
    from mt_core.errors import MtError

    try:
        with requiring("gateway", "freshtable doctor"):
            from mt_core.setup.doctor import examine, is_well, lines
            from mt_core.setup.machine import Machine
        settings = load_config(config, os.environ, (), home)
        machine = Machine(config=settings, environ=os.environ, clock=SystemClock(), config_file=config)
        if catalog is not None:
            from mt_core.setup import catalog_check

            abilities = catalog_check.examine_catalog(machine, catalog, namespace)
            for line in catalog_check.lines(catalog, abilities):
                _say(line)
            raise typer.Exit(1 if abilities.lacking else 0)
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    findings = examine(machine)
    for line in lines(findings):
        _say(line)
    raise typer.Exit(0 if is_well(findings) else 1)


@app.command()
def init(
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path(
        "freshtable.yaml"
    ),
    home: Annotated[str, typer.Option(help="The default for the home folder.")] = "./.freshtable",
    defaults: Annotated[bool, typer.Option("--yes", help="Accept all defaults without questions.")] = False,
) -> None:
    """Ask for the settings of a gateway, and write them to a commented file."""
    import os

    from mt_core.config.reading import machine_zone
    from mt_core.errors import MtError
    from mt_core.setup.initial_file import Terminal, questions, write_initial_file

    terminal = Terminal(ask=_ask, confirm=typer.confirm, say=_note) if sys.stdin.isatty() else None
    try:
        write_initial_file(output, questions(home, machine_zone(os.environ)), terminal, defaults=defaults)
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    _say(f"Wrote {output}. Check it: freshtable doctor -c {output}; start: freshtable gateway -c {output}")


def _ask(text: str, default: str) -> str:
    return str(typer.prompt(text, default=default, show_default=bool(default)))


@app.command()
@with_options(StatusOptions)
def status(options: StatusOptions) -> None:
    """Show whether gateways answer, which tables are late or failing, and which jobs failed; exit 1 if
    anything is wrong.
    """
    from mt_core.clock import SystemClock
    from mt_core.errors import MtError
    from mt_core.setup.status_run import run_status

    try:
        raise typer.Exit(run_status(options, SystemClock(), _say))
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error


@jars.command("add")
def add_jars(
    name: Annotated[str, typer.Argument(help="The set of jars: kafka, aws, s3a, gcp or azure.")],
) -> None:
    """Fetch the jars of a connector or of a store for the gateways of this machine. Kafka's need no restart,
    and those of a store are loaded when a gateway starts.
    """
    import os

    from mt_core.errors import MtError
    from mt_core.spark.driver.jars import JAR_SETS, add_jars

    try:
        paths = add_jars(name, os.environ, _say)
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error
    when = "by the statements that need them" if JAR_SETS[name].is_on_demand else "when a gateway starts"
    _say(f"Jars of {name}: {len(paths)} in {paths[0].parent}, loaded {when}")


@plan.command("diff")
def diff_plans(
    before: Annotated[Path, typer.Argument(help="The first plan file.")],
    after: Annotated[Path, typer.Argument(help="The second plan file.")],
) -> None:
    """Print the differences of two compiled plans, a line each; exit 0 if there are none, 1 if they differ, 2
    on an error.
    """
    from mt_core.errors import MtError
    from mt_core.plans.differences import differences

    try:
        difference_lines = [str(each) for each in differences(_plan_of(before), _plan_of(after))]
    except MtError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    for line in difference_lines:
        _say(line)
    raise typer.Exit(1 if difference_lines else 0)


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
