"""A run of `freshtable sql`, from its options to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from mt_core.client.terminal.columnar_file import ColumnarFile
from mt_core.client.terminal.configuration import own_file
from mt_core.client.terminal.exit_codes import ExitCode
from mt_core.client.terminal.form import Form
from mt_core.client.terminal.options import SqlOptions
from mt_core.client.terminal.prompt import Prompt
from mt_core.client.terminal.script import Runner, Screen
from mt_core.client.terminal.start import connect, run_init_files
from mt_core.errors import ConfigError, MtError, Unsupported


def run_sql(options: SqlOptions, environ: Mapping[str, str]) -> ExitCode:
    """Run what *options* ask for, with the standard streams of this process; errors are shown."""
    screen = Screen(out=sys.stdout, messages=Console(stderr=True, highlight=False))
    try:
        code = _run(options, environ, screen)
        sys.stdout.flush()
    except MtError as error:
        screen.show_error(error)
        return ExitCode.of(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Who reads the rows has enough of them, such as `head`. Python would report the pipe once more at its end.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return ExitCode.OK
    return code


def _run(options: SqlOptions, environ: Mapping[str, str], screen: Screen) -> ExitCode:
    configuration = options.configuration(own_file(environ))
    script = options.script()
    with ExitStack() as stack:
        if configuration.format is not None:
            screen = replace(screen, form=Form(configuration.format))
        if options.output is not None:
            screen = _with_output(screen, options.output, stack, typed=script is None)
        runner = Runner(stack.enter_context(connect(configuration, environ)), screen)
        error = run_init_files(runner, configuration.init)
        if error is None and script is not None:
            error = runner.run_script(script, go_on=options.go_on)
        elif error is None:
            _edit_lines()
            Prompt(runner).run()
    if error is None and screen.file is not None and not screen.file.written:
        raise Unsupported(f"{screen.file.path} was not written: no statement is a query.")
    return ExitCode.OK if error is None else ExitCode.of(error)


def _with_output(screen: Screen, output: Path, stack: ExitStack, *, typed: bool) -> Screen:
    """Return *screen* with the file *output* for the rows; raises ConfigError."""
    if screen.form is not None and screen.form.is_columnar:
        if typed:
            raise ConfigError(f"--format {screen.form} needs statements: -e, -f or standard input.")
        return replace(screen, file=ColumnarFile(output, screen.form))
    try:
        return replace(screen, out=stack.enter_context(output.open("w", encoding="utf-8", newline="")))
    except OSError as cause:
        raise ConfigError(f"-o {output} cannot be written: {cause}") from cause


def _edit_lines() -> None:
    """Let `input` edit lines and keep a history by readline, where Python has it."""
    with suppress(ImportError):
        import readline  # noqa: F401 - the import alone has the effect
