"""`freshtable sql --embedded`: the client starts, joins and leaves a gateway over fakes, each in its own
process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from typer.testing import CliRunner

from mt_core.cli import app
from mt_core.client.home import Holder, holder_of
from tests.support.client_page import block, transcript
from tests.support.client_screen import PROMPT, at_prompt
from tests.support.gateway.embedded import client
from tests.support.gateway.statements import Gateway
from tests.support.screen import ScreenTerminal
from tests.support.terminal import CTRL_C, CTRL_D, CTRL_L

pytestmark = pytest.mark.processes

WAIT_S = 60.0
# The home folder and the process of docs/client.md.
HOME, PROCESS = "/home/ada/flights/.freshtable", "4711"
Sit = Callable[..., ScreenTerminal]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose path is short enough for a socket; its gateway is killed at the end."""
    with TemporaryDirectory(prefix="home") as folder:
        home = Path(folder)
        (home / "may-start").touch()
        yield home
        left = gateways_on(home)
        for process in left:
            process.kill()
        psutil.wait_procs(left, WAIT_S)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FRESHTABLE_GATEWAY"}
    }
    return {**inherited, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def sit(home: Path, environ: dict[str, str]) -> Iterator[Sit]:
    """Open a terminal with an embedded client, and wait for its prompt."""
    terminals: list[ScreenTerminal] = []

    def open_terminal(*arguments: str) -> ScreenTerminal:
        terminal = ScreenTerminal(client(home, *arguments), environ)
        terminals.append(terminal)
        terminal.see(at_prompt)
        return terminal

    yield open_terminal
    for terminal in terminals:
        terminal.__exit__(None, None, None)


def run(home: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        client(home, *arguments), env=environ, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def one_row(terminal: ScreenTerminal) -> list[str]:
    """Run a query, and return the screen with its result."""
    before = sum(line == "1 row" for line in terminal.lines)
    terminal.type("SELECT 1;\r")
    return terminal.see(lambda lines: at_prompt(lines) and sum(line == "1 row" for line in lines) > before)


def of(home: Path) -> Holder:
    holder = holder_of(home)
    assert holder is not None
    return holder


def gateways_on(home: Path) -> list[psutil.Process]:
    """Return the gateway processes on *home*, including starting ones."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if {str(home), "sql-gateway.embedded=true"} <= set(process.info["cmdline"] or ())
    ]


def gone(holder: Holder) -> bool:
    """Wait until the gateway's process has exited, and return True."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(holder.pid).wait(WAIT_S)
    return True


def test_a_script_starts_a_gateway_in_the_home_that_ends_after_it(
    home: Path, environ: dict[str, str]
) -> None:
    ran = run(home, environ, "--format", "csv", "-e", "SELECT 1")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "a\n1\n", "")
    holder = holder_of(home)
    assert holder is None or gone(holder)
    assert not (home / "gateway.sock").exists()


def test_a_statement_typed_while_the_gateway_starts_waits_for_it_with_a_line_that_says_so_until_ctrl_c(
    home: Path, sit: Sit
) -> None:
    (home / "may-start").unlink()
    terminal = sit()
    greeted = terminal.lines

    terminal.type("SELECT 1;\r")
    terminal.see(lambda lines: any("is starting; its log is " in line for line in lines))
    terminal.type(CTRL_C)
    terminal.see(at_prompt)
    terminal.type("SELECT 1;\r")
    terminal.see(lambda lines: any("is starting; its log is " in line for line in lines))
    (home / "may-start").touch()
    ran = terminal.see(lambda lines: at_prompt(lines) and "1 row" in lines)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "gateway.sock")]

    assert greeted == block("sql --embedded").replace(HOME, str(home)).splitlines()[1:]
    assert not any("its log" in line for line in ran)
    assert modes == [0o700, 0o600]


@pytest.mark.slow
def test_two_clients_at_once_share_a_gateway_which_ends_when_the_second_is_killed(
    home: Path, sit: Sit
) -> None:
    (home / "may-start").unlink()
    terminals = [sit(), sit()]
    (home / "may-start").touch()

    screens = [one_row(terminal) for terminal in terminals]
    holder = of(home)
    terminals[0].type(CTRL_D)
    first = terminals[0].wait_end(WAIT_S)
    after_the_first = one_row(terminals[1])
    os.kill(terminals[1].pid, signal.SIGKILL)

    used = f"The gateway at {holder.url} (process {holder.pid}) owns {home} and is used."
    assert sorted(any(line == used for line in screen) for screen in screens) == [False, True]
    assert (first, after_the_first.count("1 row"), gone(holder)) == (0, 2, True)


@pytest.mark.slow
def test_work_keeps_the_gateway_and_the_client_says_how_to_stop_it(
    home: Path, environ: dict[str, str]
) -> None:
    (home / "work").write_text("1 job runs", encoding="utf-8")

    ran = run(home, environ, "--format", "csv", "-e", "SELECT 1")
    holder = of(home)
    again = run(home, environ, "--format", "csv", "-e", "SELECT 1")
    stopped = CliRunner().invoke(app, ["gateway", "stop", "--home", str(home)])

    farewell = (
        f"The gateway on {home} continues as process {holder.pid} and stops after this work: 1 job runs. "
        f"To stop it: freshtable gateway stop --home {home}\n"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "a\n1\n", farewell)
    assert (again.returncode, again.stdout, again.stderr.endswith(farewell)) == (0, "a\n1\n", True)
    assert (stopped.exit_code, gone(holder)) == (0, True)


@pytest.mark.slow
def test_a_person_who_quits_reads_what_goes_on_as_on_the_page(home: Path, sit: Sit) -> None:
    [(typed, page)] = transcript("continues as process")
    (home / "work").write_text("1 materialized table is ACTIVATED", encoding="utf-8")
    terminal = sit()
    one_row(terminal)
    terminal.type(CTRL_L)
    terminal.see(lambda lines: lines == [PROMPT])
    terminal.type(f"{typed}\r")

    code, holder = terminal.wait_end(WAIT_S), of(home)

    # The screen breaks the line where it ends.
    said = "".join(terminal.lines[1:])
    assert (code, said) == (0, page[0].replace(HOME, str(home)).replace(PROCESS, str(holder.pid)))


def test_a_home_that_another_gateway_holds_is_used_through_that_one_and_the_client_says_so(
    home: Path, gateway: Gateway, sit: Sit
) -> None:
    url = str(gateway.http.base_url).rstrip("/")
    (home / "gateway.json").write_text(f'{{"pid": {os.getpid()}, "url": "{url}"}}', encoding="utf-8")

    terminal = sit()
    ran = one_row(terminal)
    terminal.type(CTRL_D)

    assert terminal.wait_end(WAIT_S) == 0
    assert ran[0].startswith(
        f"The gateway at {url} (process {os.getpid()}) owns {home} and is used. End statements"
    )
    assert [sql for _, sql in gateway.engine.executed if sql == "SELECT 1"] == ["SELECT 1"]
    assert not (home / "gateway.sock").exists()


def test_the_token_of_the_command_line_is_for_the_gateway_of_the_home(
    home: Path, guarded_gateway: Gateway, environ: dict[str, str]
) -> None:
    url = str(guarded_gateway.http.base_url).rstrip("/")
    (home / "gateway.json").write_text(f'{{"pid": {os.getpid()}, "url": "{url}"}}', encoding="utf-8")

    refused = run(home, environ, "--format", "csv", "-e", "SELECT 1")
    taken = run(home, environ, "--format", "csv", "--token", "second", "-e", "SELECT 1")

    assert (refused.returncode, taken.returncode, taken.stdout) == (3, 0, "a\n1\n")
    assert refused.stderr.startswith("Error: Unauthorized: this gateway asks for a token.")


def test_a_gateway_that_was_killed_is_started_again_by_the_next_statement(home: Path, sit: Sit) -> None:
    terminal = sit()
    one_row(terminal)
    before = of(home)
    os.kill(before.pid, signal.SIGKILL)
    # The client waits for its own child, who would else stay a zombie.
    terminal.type("SELECT 1;\r")

    terminal.see(
        lambda lines: (
            at_prompt(lines) and (lines.count("1 row") == 2 or any("Error" in each for each in lines))
        )
    )
    shown = terminal.lines if terminal.lines.count("1 row") == 2 else one_row(terminal)

    assert shown.count("1 row") == 2
    assert of(home).pid != before.pid


def test_a_gateway_that_cannot_start_is_exit_code_3_with_its_own_reason(
    home: Path, environ: dict[str, str]
) -> None:
    (home / "may-start").unlink()
    (home / "failure").write_text("Java 17 is needed; install it.", encoding="utf-8")

    ran = run(home, environ, "-e", "SELECT 1")

    assert (ran.returncode, ran.stdout) == (3, "")
    log = home / "logs" / "embedded.log"
    assert (
        ran.stderr
        == f"Error: The gateway on {home} did not start (see {log}): Java 17 is needed; install it.\n"
    )


@pytest.mark.slow
def test_a_client_that_leaves_before_the_gateway_answers_does_not_wait_for_it(home: Path, sit: Sit) -> None:
    (home / "may-start").unlink()
    terminal = sit()

    terminal.type(CTRL_D)
    code = terminal.wait_end(WAIT_S)
    (home / "may-start").touch()
    _, staying = psutil.wait_procs(gateways_on(home), WAIT_S)

    assert (code, staying) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--home", "x"], "--home requires --embedded; use --gateway for a gateway that already runs."),
        (
            ["--embedded", "--gateway", "http://x:1"],
            "--embedded and --gateway cannot be used together; leave out one",
        ),
        (
            ["--embedded", "--home", "/dev/null/x"],
            "Home folder /dev/null/x cannot be used: Not a directory; choose",
        ),
    ],
)
def test_options_that_contradict_each_other_are_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.delenv("FRESHTABLE_GATEWAY", raising=False)

    ran = CliRunner().invoke(app, ["sql", *arguments, "-e", "SELECT 1"])

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"Error: {message}")
