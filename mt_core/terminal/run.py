"""One run of `freshtable sql`, from its options to its exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from mt_core.errors import ConfigError, MtError, Unsupported
from mt_core.terminal.background import ended_by_signals
from mt_core.terminal.configuration import ClientConfiguration, own_file
from mt_core.terminal.display import Display
from mt_core.terminal.exit_codes import ExitCode
from mt_core.terminal.options import SqlOptions
from mt_core.terminal.output.columnar_file import ColumnarFile
from mt_core.terminal.output.form import Form
from mt_core.terminal.output.replaced_file import TextFile
from mt_core.terminal.prompt.prompt import PlainReader, Prompt
from mt_core.terminal.prompt.state import Keys, PromptState
from mt_core.terminal.script import Runner, Screen
from mt_core.terminal.start import connect, prepare, run_init_files

_PLAIN = {"", "dumb", "unknown"}
_COLLECTIONS = (700, 10, 10)


def run_sql(options: SqlOptions, environ: Mapping[str, str]) -> ExitCode:
    """Run the client with *options* on the standard streams of this process and return its exit code.

    Errors are shown to the user.
    """
    screen = Screen(out=sys.stdout, messages=Console(stderr=True, highlight=False))
    try:
        with ended_by_signals():
            code = _run(options, environ, screen)
        sys.stdout.flush()
    except MtError as error:
        screen.show_error(error)
        return ExitCode.of(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe, such as `head`, has read enough. Without this redirection, Python would
        # report the broken pipe again at exit.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return ExitCode.OK
    return code


def _run(options: SqlOptions, environ: Mapping[str, str], screen: Screen) -> ExitCode:
    configuration = options.configuration(own_file(environ))
    home = options.embedded_home(environ)
    script = options.script()
    keys = Keys.named(configuration.editing_mode or Keys.EMACS)
    with ExitStack() as stack:
        if configuration.format is not None:
            screen = replace(screen, form=Form(configuration.format))
        text = None
        if options.output is not None and screen.form is not None and screen.form.is_columnar:
            screen = replace(screen, file=_columnar(options.output, screen.form, typed=script is None))
        elif options.output is not None:
            text = stack.enter_context(TextFile(options.output))
            screen = replace(screen, out=text.rows)
        runner, meet = _connected(home, configuration, environ, screen, stack)
        error = run_init_files(runner, configuration.init)
        if error is not None:
            return ExitCode.of(error)
        if script is not None:
            error = runner.run_script(script, go_on=options.go_on)
        else:
            history = None if configuration.history is None else Path(configuration.history)
            _prompt(
                PromptState(runner=runner, environ=environ, keys=keys, history=history), meet, stack
            ).run()
        if text is not None:
            text.wanted = error is None or options.go_on
    if error is None and screen.file is not None and not screen.file.written:
        raise Unsupported(f"{screen.file.path} was not written: there was no query.")
    return ExitCode.OK if error is None else ExitCode.of_statement(error)


def _columnar(output: Path, form: Form, *, typed: bool) -> ColumnarFile:
    """Return the columnar file *output*. Raises ConfigError if statements are typed at a prompt."""
    if typed:
        raise ConfigError(f"--format {form} needs statements: -e, -f or standard input.")
    return ColumnarFile(output, form)


def _connected(
    home: Path | None,
    configuration: ClientConfiguration,
    environ: Mapping[str, str],
    screen: Screen,
    stack: ExitStack,
) -> tuple[Runner, Callable[[], str] | None]:
    """Return the runner of statements, connected to the embedded gateway of *home* if it is given.

    Also return the function that opens the session of an embedded gateway in the background.
    """
    if home is None:
        return Runner(stack.enter_context(connect(configuration, environ)), screen), None
    # Imported here because most clients do not start a gateway.
    from mt_core.terminal.embedded import EmbeddedGateway
    from mt_core.terminal.gateway_connection import GatewayConnection

    embedded = stack.enter_context(EmbeddedGateway(home, configuration.token))
    client = stack.enter_context(prepare(configuration, embedded.url, embedded.transport()))
    meeting = GatewayConnection(client, embedded, screen.messages)
    # The farewell asks the gateway, so it must run before the session is closed.
    stack.callback(meeting.leave)
    initial = Display.of(configuration.properties)
    return Runner(client, screen, await_session=meeting.wait, initial=initial), meeting.begin


def _prompt(sitting: PromptState, meet: Callable[[], str] | None, stack: ExitStack) -> Prompt:
    """Return a prompt with the line editor, or with plain lines if the terminal cannot move its cursor."""
    if sitting.environ.get("TERM", "dumb") in _PLAIN or not sys.stderr.isatty():
        return Prompt(sitting, PlainReader(), meet)
    # The import takes 0.1 s, which scripts should not have to wait for.
    from mt_core.terminal.editor.editor import Editor
    from mt_core.terminal.viewer.viewer import ScreenViewer

    if sitting.runner.screen.out.isatty():
        sitting.runner.viewer = ScreenViewer(colours=not sitting.environ.get("NO_COLOR"))
    editor = stack.enter_context(Editor(sitting))
    # Everything is loaded, so restore the usual garbage collection thresholds.
    gc.set_threshold(*_COLLECTIONS)
    return Prompt(sitting, editor, meet)
