"""The commands of the prompt.

A command is a line that the client itself runs. It is not SQL, needs no semicolon, and ends with its line.
`COMMANDS` defines all commands. Dispatch, HELP, and the completion of command names and table arguments all
use this table. A new command is therefore one row (and an entry of `typed.WORDS` if its name has no
backslash). Names with a backslash follow psql. The other names follow Flink's client; no statement starts
with them, so the prompt recognizes a command by its first word. Most commands insert their argument into a
fixed statement, which runs like a typed statement. A command has no state of its own and uses only that of
the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt_core.base.identifiers import string_literal
from mt_core.base.options import suggestion
from mt_core.client.extended import extended_rows
from mt_core.errors import GatewayError, MtError, RequestInvalid
from mt_core.terminal.display import TIME_COST
from mt_core.terminal.options import read_text
from mt_core.terminal.prompt.examples import examples_of
from mt_core.terminal.prompt.state import EDITING_MODE, Keys, PromptState
from mt_core.terminal.prompt.typed import BACKSLASH, EDIT, SET, command_parts, key_and_value

WATCH_S = 2.0
LIKENESS = 0.5
# Decisions in SHOW REFRESHES EXTENDED. Verifications and compactions have other decisions, because they are
# not refreshes.
_REFRESH = "refresh"
_DECIDED = {_REFRESH: "computed rows", "skip": "was skipped", "suspended": "found the table suspended"}
_LOOKED_AT = 20
Run = Callable[[PromptState, str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A row of `COMMANDS`. `run` receives the argument, without surrounding blanks and semicolons.

    If `takes_table` is set, completion offers tables as the argument. `others` are aliases.
    """

    name: str
    arguments: str = ""
    purpose: str
    run: Run
    takes_table: bool = False
    others: tuple[str, ...] = ()


def command_named(name: str) -> Command | None:
    """Return the command with *name*, or None.

    Names without a backslash are case-insensitive and may end with a semicolon.
    """
    written = name if name.startswith(BACKSLASH) else name.rstrip(";").upper()
    return next((command for command in COMMANDS if written in (command.name, *command.others)), None)


def run_command(sitting: PromptState, line: str) -> None:
    """Run the command on *line*. Raises MtError."""
    name, argument = command_parts(line)
    command = command_named(name) or command_named(name.rstrip(";"))
    if command is None:
        near = suggestion(name, [each.name for each in COMMANDS], likeness=LIKENESS)
        raise RequestInvalid(f"There is no command {name}; {near or 'HELP lists the commands.'}")
    command.run(sitting, argument)


# ------------------------------------------------------------------------------------------------- statements


def _statement(alone: str, about: str) -> Run:
    """Return a function that runs the statement *alone*, or *about* if the command has an argument."""

    def run(sitting: PromptState, argument: str) -> None:
        sitting.runner.run(about.format(argument) if argument else alone)

    return run


def _table(argument: str, command: str) -> str:
    if not argument:
        raise RequestInvalid(f"{command} needs a table; write for example {command} lake.shop.daily")
    return argument


def _why(sitting: PromptState, argument: str) -> None:
    table = _table(argument, r"\why")
    runs = extended_rows(sitting.runner.rows, f"SHOW REFRESHES FOR {table}", f" LIMIT {_LOOKED_AT}")
    decided = [run for run in runs if run["decision"] in _DECIDED] or runs
    sitting.runner.screen.out.write(
        decision_text(decided[0]) + "\n" if runs else f"{table} has had no refresh yet.\n"
    )


def decision_text(run: Mapping[str, Any]) -> str:
    """Return the decision in a row of SHOW REFRESHES EXTENDED as one sentence."""
    when = run["started at"] or run["requested at"]
    decided = _DECIDED.get(run["decision"], f"is {run['status']}")
    has_worked = run["decision"] == _REFRESH
    how = f" by {run['strategy']}" if run.get("strategy") and has_worked else ""
    outcome = f" and ended as {run['status']}" if has_worked else ""
    why = f", because: {run['reason']}" if run["reason"] else ""
    failure = f"; error: {run['error']}" if run["error"] else ""
    text = (
        f"{run['materialized table']}: the {run['kind']} refresh of {when} "
        f"{decided}{how}{outcome}{why}{failure}"
    )
    return text if text.endswith(".") else f"{text}."


def _lineage(sitting: PromptState, argument: str) -> None:
    from rich.console import Console

    from mt_core.terminal.prompt.lineage import lineage

    tree = lineage(_table(argument, r"\lineage"), sitting.runner.rows)
    Console(file=sitting.runner.screen.out, highlight=False).print(tree, soft_wrap=True)


# ------------------------------------------------------------------------------------------- about the prompt


def _watch(sitting: PromptState, argument: str) -> None:
    """Run the last statement repeatedly until Ctrl-C."""
    try:
        seconds = float(argument or WATCH_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise RequestInvalid(
            rf"\watch {argument}: expected a number of seconds above 0 and below 86400; \watch 5"
        )
    if not sitting.last:
        raise RequestInvalid(
            r"\watch repeats the last statement, but no statement has run yet; run one first."
        )
    runner = sitting.runner
    # A view would wait for a key after each repetition.
    viewer, runner.viewer = runner.viewer, None
    try:
        while True:
            sitting.wait(seconds)
            runner.run(sitting.last)
    except MtError as error:
        runner.show_error(error, statement=sitting.last)
    finally:
        runner.viewer = viewer


def _jobs(sitting: PromptState, argument: str) -> None:
    client, background = sitting.runner.client, sitting.runner.background
    for number, work in background:
        try:
            status = client.status(work.operation)
        except GatewayError as error:
            status = str(error)
        sitting.say(f"[{number}] {status}  {work.seconds:.0f} s  {work.title}")
    if not len(background):
        sitting.say("No statement is in the background; Ctrl-Z puts one there while it runs.")


def _fg(sitting: PromptState, argument: str) -> None:
    sitting.runner.resume(argument)


def _timing(sitting: PromptState, argument: str) -> None:
    shows_time = {"": not sitting.runner.display.time_cost, "on": True, "off": False}.get(argument.lower())
    if shows_time is None:
        raise RequestInvalid(rf"\timing {argument}: expected on or off.")
    sitting.runner.run(f"SET '{TIME_COST}' = '{str(shows_time).lower()}'")
    sitting.say(f"The time of statements is {'shown' if shows_time else 'not shown'}.")


def _set(sitting: PromptState, argument: str) -> None:
    key, value = key_and_value(argument)
    match key, value:
        case "", _:
            sitting.say(f"{EDITING_MODE} = {sitting.keys}")
            sitting.runner.run("SET")
        case _ if key == EDITING_MODE and not value:
            sitting.say(f"{EDITING_MODE} = {sitting.keys}")
        case _ if key == EDITING_MODE:
            sitting.keys = Keys.named(value)
        case _, "":
            sitting.runner.run(f"SET {string_literal(key)}")
        case _:
            sitting.runner.run(f"SET {string_literal(key)} = {string_literal(value)}")


def _edit(sitting: PromptState, argument: str) -> None:
    sitting.typed = sitting.edit(f"{sitting.last};\n" if sitting.last else "")
    sitting.say(sitting.typed.rstrip("\n"))


def _source(sitting: PromptState, argument: str) -> None:
    if not argument:
        raise RequestInvalid("SOURCE needs a file; write for example SOURCE setup.sql")
    # run_script has already shown the error that stopped the file.
    sitting.runner.run_script(read_text(Path(argument.strip("'\"")).expanduser()))


def _help(sitting: PromptState, argument: str) -> None:
    if not argument:
        width = max(len(f"{each.name} {each.arguments}") for each in COMMANDS)
        for each in COMMANDS:
            sitting.say(f"{f'{each.name} {each.arguments}'.ljust(width)}  {each.purpose}")
        sitting.say(
            "\nHELP with the first words of a statement shows examples: HELP CREATE, HELP SHOW REFRESHES."
        )
        return
    examples = examples_of(argument)
    if not examples:
        raise RequestInvalid(
            f"There is no example of {argument.upper()}; HELP lists the commands, HELP SHOW some examples."
        )
    sitting.say("\n".join(f"{text};" for text in examples))


def _clear(sitting: PromptState, argument: str) -> None:
    sitting.runner.screen.messages.clear()


def _quit(sitting: PromptState, argument: str) -> None:
    sitting.has_left = True


COMMANDS: tuple[Command, ...] = (
    Command(
        name=r"\d",
        arguments="[name]",
        purpose="the tables of the current database; with a name, its columns and all details",
        run=_statement("SHOW TABLES", "DESCRIBE EXTENDED {}"),
        takes_table=True,
    ),
    Command(
        name=r"\l",
        arguments="[catalog]",
        purpose="the catalogs; with a name, the databases of that catalog",
        run=_statement("SHOW CATALOGS", "SHOW DATABASES IN {}"),
    ),
    Command(
        name=r"\dt",
        arguments="[database]",
        purpose="the tables and views of a database; default the current one",
        run=_statement("SHOW TABLES", "SHOW TABLES IN {}"),
    ),
    Command(
        name=r"\df",
        arguments="[database]",
        purpose="user-defined functions",
        run=_statement("SHOW USER FUNCTIONS", "SHOW USER FUNCTIONS IN {}"),
    ),
    Command(
        name=r"\refreshes",
        arguments="[table]",
        purpose="the last refreshes of all tables, or of one",
        run=_statement("SHOW REFRESHES", "SHOW REFRESHES FOR {}"),
        takes_table=True,
    ),
    Command(
        name=r"\why",
        arguments="table",
        purpose="the decision of a table's last refresh and its reason, in one sentence",
        run=_why,
        takes_table=True,
    ),
    Command(
        name=r"\lineage",
        arguments="table",
        purpose="the sources of a table, as a tree",
        run=_lineage,
        takes_table=True,
    ),
    Command(
        name=r"\watch",
        arguments="[seconds]",
        purpose="repeat the last statement until Ctrl-C",
        run=_watch,
    ),
    Command(name=r"\jobs", purpose="the statements in the background", run=_jobs),
    Command(
        name=r"\fg",
        arguments="[number]",
        purpose="resume a statement in the background; default the last one put there",
        run=_fg,
    ),
    Command(
        name=r"\timing",
        arguments="[state]",
        purpose="show the time of each statement (on), hide it (off), or toggle",
        run=_timing,
    ),
    Command(
        name=SET,
        arguments="[key [value]]",
        purpose=f"set a session property; {EDITING_MODE} emacs or vi sets the keys of the prompt",
        run=_set,
    ),
    Command(
        name=EDIT, purpose="edit the last statement, or the lines above, in $VISUAL or $EDITOR", run=_edit
    ),
    Command(
        name="SOURCE",
        arguments="file",
        purpose="run the statements of a file, up to the first error",
        run=_source,
    ),
    Command(
        name="HELP",
        arguments="[statement]",
        purpose="this list, or examples of a statement",
        run=_help,
        others=(r"\?",),
    ),
    Command(name="CLEAR", purpose="clear the screen, as Ctrl-L does", run=_clear),
    Command(name="QUIT", purpose="leave, as Ctrl-D does", run=_quit, others=("EXIT", r"\q")),
)
