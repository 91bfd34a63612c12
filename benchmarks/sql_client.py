"""How long does a user of `freshtable sql` wait?

Measures the wait for the prompt, for the completion of a word, and for the first screen of rows.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psutil

from benchmarks.embedded import embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, timed
from mt_core.base.rowset import INT, STRING, Column, RowSet
from mt_core.client.http import GatewayClient
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.statements import Gateway, statement_gateway
from tests.support.screen import ScreenTerminal
from tests.support.terminal import CTRL_D

PROGRAM = Path(sys.executable).parent / "freshtable"
STARTS, WORDS, SCREENS = 12, 300, 10
# The first pages fill the editor's cache of screens.
FIRST_PAGES, PAGES = 100, 500
TABLES, ROWS = 1_000, 1_000_000
PROMPT, CTRL_U = "freshtable>", "\x15"
MANY = "SELECT many"
LARGE, LARGE_ROWS, LARGE_WARM_UP = "lake.default.large", 100_000_000, 3
ASKED_START_S, ASKED_KEY_S, ASKED_SCREEN_S, ASKED_GROWTH = 0.5, 0.05, 0.15, 10 * 2**20
MIB = 2**20


def measure() -> Iterator[Finding]:
    """Yield the table of waiting times, and the table of memory."""
    with _gateway() as gateway, TemporaryDirectory(prefix="freshtable-bench-") as folder:
        environ = os.environ | {
            "FRESHTABLE_GATEWAY": str(gateway.http.base_url),
            "XDG_STATE_HOME": folder,
            "XDG_CONFIG_HOME": folder,
        }
        yield _waits(gateway, environ)
        yield _memory(environ)
        yield _large(environ)


@contextmanager
def _gateway() -> Iterator[Gateway]:
    """Yield a gateway in this process whose engine has prepared answers.

    These are a thousand tables, and a query of a million rows.
    """
    with httpx.Client() as http, statement_gateway(http, max_sessions=100) as gateway:
        names = [[f"t_{number:04}"] for number in range(TABLES)]
        rows = [[number, f"city {number % 1000}"] for number in range(ROWS)]
        columns = (Column(name="n", type=INT), Column(name="city", type=STRING))
        tables, many = (
            RowSet(columns=(Column(name="table name"),), rows=names),
            RowSet(columns=columns, rows=rows),
        )
        gateway.engine.answers["SHOW TABLES"] = StatementResult(is_query=False, rows=tables)
        gateway.engine.answers[MANY] = StatementResult(is_query=True, rows=many)
        # The rows of the fake are not the work of a gateway, so its garbage collector must ignore them.
        gc.freeze()
        server = GatewayServer(build_app(gateway.services), listen("127.0.0.1", 0))
        server.start()
        http.base_url = httpx.URL(server.url)
        try:
            yield gateway
        finally:
            server.stop()
            gc.unfreeze()


def _waits(gateway: Gateway, environ: dict[str, str]) -> Finding:
    starts = Samples([timed(lambda: _start_and_leave(environ)) for _ in range(STARTS)])
    with _started(environ) as terminal:
        asked, known = _words(terminal)
        screens = Samples([_first_screen(terminal, MANY) for _ in range(SCREENS)])
    with GatewayClient(str(gateway.http.base_url), exact=True) as client:
        bare = Samples([timed(lambda: _first_batch(client, MANY)) for _ in range(SCREENS)])
    worst = Samples([*asked.seconds, *known.seconds]).percentile(99)
    over = screens.median - bare.median
    return Finding(
        title="What a person at freshtable sql waits for",
        columns=["", "wait", "99 %"],
        rows=[
            ["start to prompt", starts.shown(), ""],
            [f"key to the names of {TABLES} tables", asked.shown(), show(asked.percentile(99))],
            ["letter to the names that fit", known.shown(), show(known.percentile(99))],
            [f"first screen of {ROWS:,} rows", screens.shown(), ""],
            ["the same first page by GatewayClient", bare.shown(), ""],
        ],
        targets=[
            Target(
                asked="start to prompt within 0.5 s",
                measured=starts.shown(),
                met=starts.median <= ASKED_START_S,
            ),
            Target(asked="99 % of completions within 50 ms", measured=show(worst), met=worst <= ASKED_KEY_S),
            Target(
                asked="first screen within bare page + 150 ms",
                measured=show(over),
                met=over <= ASKED_SCREEN_S,
            ),
        ],
        notes=[
            f"Median (min to max) of {STARTS} starts, {WORDS} words and {SCREENS} results, "
            "from the key to the text on a pseudo terminal. The engine is a fake whose answers are ready, "
            "in the process that measures: what Spark and a catalog take comes on top.",
        ],
    )


@contextmanager
def _started(environ: dict[str, str]) -> Iterator[ScreenTerminal]:
    with ScreenTerminal([str(PROGRAM), "sql"], environ) as terminal:
        terminal.see(_at_prompt)
        yield terminal
        terminal.type(CTRL_U + CTRL_D)
        terminal.wait_end()


def _at_prompt(lines: list[str]) -> bool:
    return lines[-1] == PROMPT


def _start_and_leave(environ: dict[str, str]) -> None:
    """Start the client and return at its prompt, without waiting for the end of the client."""
    with ScreenTerminal([str(PROGRAM), "sql"], environ) as terminal:
        terminal.see(_at_prompt)


def _words(terminal: ScreenTerminal) -> tuple[Samples, Samples]:
    """Return the durations of two kinds of keys.

    For the key before a name, the client asks the gateway; for a letter, it does not.
    """
    asked, known = list[float](), list[float]()
    for number in range(WORDS):
        begun = f"SELECT {number:03} FROM"
        terminal.type(f"{CTRL_U}{begun}")
        terminal.see(partial(_ends, begun))
        asked.append(_key(terminal, " ", partial(_has, "t_0000")))
        known.append(_key(terminal, "t", lambda lines: not _has("spark_catalog", lines)))
    return Samples(asked), Samples(known)


def _has(text: str, lines: list[str]) -> bool:
    return any(text in line for line in lines)


def _ends(text: str, lines: list[str]) -> bool:
    return lines[-1].endswith(text)


def _key(terminal: ScreenTerminal, key: str, shows: Callable[[list[str]], bool]) -> float:
    begun = time.perf_counter()
    terminal.type(key)
    terminal.see(shows)
    return time.perf_counter() - begun


def _first_screen(terminal: ScreenTerminal, statement: str) -> float:
    terminal.type(f"{CTRL_U}{statement};")
    terminal.see(partial(_ends, f"{statement};"))
    seconds = _key(terminal, "\r", _in_view)
    terminal.type("q")
    terminal.see(_at_prompt)
    return seconds


def _in_view(lines: list[str]) -> bool:
    return lines[-1].startswith("Q leave")


def _first_batch(client: GatewayClient, statement: str) -> None:
    operation = client.execute(statement)
    next(client.pages(operation))
    client.close_operation(operation)


def _large(environ: dict[str, str]) -> Finding:
    """Return how long the first screen of a large table takes on a real Spark, which reads every row."""
    with embedded_gateway() as gateway:
        gateway.sql(
            f"CREATE TABLE {LARGE} AS SELECT id AS n, concat('city ', id % 1000) AS city "
            f"FROM range({LARGE_ROWS})"
        )
        statement = f"SELECT n, city FROM {LARGE}"
        screens, bare = list[float](), list[float]()
        with (
            _started(environ | {"FRESHTABLE_GATEWAY": gateway.client.url}) as terminal,
            GatewayClient(gateway.client.url, exact=True) as client,
        ):
            for number in range(LARGE_WARM_UP + SCREENS):
                first, screen = (
                    timed(lambda: _first_batch(client, statement)),
                    _first_screen(terminal, statement),
                )
                if number >= LARGE_WARM_UP:
                    bare.append(first)
                    screens.append(screen)
    over = Samples(screens).median - Samples(bare).median
    return Finding(
        title=f"The first screen of {LARGE_ROWS:,} rows of an Iceberg table",
        columns=["", "wait"],
        rows=[
            ["first screen", Samples(screens).shown()],
            ["the same first page by GatewayClient", Samples(bare).shown()],
        ],
        targets=[
            Target(
                asked="first screen within bare page + 150 ms",
                measured=show(over),
                met=over <= ASKED_SCREEN_S,
            )
        ],
        notes=[
            (
                f"Median (min to max) of {SCREENS} results in turns, after {LARGE_WARM_UP}, "
                "on a Spark with its default heap."
            )
        ],
    )


def _memory(environ: dict[str, str]) -> Finding:
    with _started(environ) as terminal:
        process = psutil.Process(terminal.pid)
        at_prompt = process.memory_info().rss
        terminal.type(f"{MANY};\r")
        terminal.see(partial(_has, "all rows"))
        read = process.memory_info().rss
        turned = {page: _turn_page(terminal, process, page) for page in range(1, PAGES + 1)}
        terminal.type("l")
        terminal.see(partial(_has, f"row {ROWS} of"))
        at_end = process.memory_info().rss
        terminal.type("q")
        terminal.see(_at_prompt)
    growth = max(turned[PAGES], at_end) - turned[FIRST_PAGES]
    return Finding(
        title="Memory of freshtable sql",
        columns=["", "resident"],
        rows=[
            ["at the prompt", f"{at_prompt / MIB:.0f} MiB"],
            [f"{ROWS:,} rows read, the first ones shown", f"{read / MIB:.0f} MiB"],
            *([f"{page} pages further", f"{turned[page] / MIB:.0f} MiB"] for page in (FIRST_PAGES, PAGES)),
            ["at the last row", f"{at_end / MIB:.0f} MiB"],
        ],
        targets=[
            Target(
                asked="flat while scrolling, within 10 MiB",
                measured=f"{growth / MIB:+.1f} MiB",
                met=growth <= ASKED_GROWTH,
            )
        ],
        notes=["The rows are on disk."],
    )


def _turn_page(terminal: ScreenTerminal, process: psutil.Process, page: int) -> int:
    """Turn to the page after *page*, and return the memory that is then in use."""
    terminal.type("n")
    terminal.see(partial(_has, f"| page {page + 1} of"))
    return int(process.memory_info().rss)
