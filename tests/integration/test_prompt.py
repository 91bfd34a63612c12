"""A person at the prompt of `freshtable sql`, in a pseudo terminal, on a real gateway with a real Spark
that dies under it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mt_core.errors import GatewayError
from tests.support.client_screen import PROGRAM, answered, at_prompt, watched
from tests.support.gateway.own_process import GatewayUnderTest, alive, wait_until
from tests.support.screen import ScreenTerminal
from tests.support.terminal import CTRL_C, CTRL_D

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

WAIT_S = 60.0


def cells(terminal: ScreenTerminal, line: str) -> list[str]:
    """Return the values of the one column that *line* prints."""
    return [row.strip("│ ") for row in answered(terminal, line) if row.startswith("│")]


def answers(gateway: GatewayUnderTest) -> bool:
    with suppress(GatewayError):
        return bool(gateway.sql("SELECT count(*) FROM numbers"))
    return False


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("home")) as gateway:
        gateway.start()
        gateway.sql(
            "CREATE TABLE lake.default.numbers USING iceberg AS SELECT id FROM range(0, 100000, 1, 4)"
        )
        yield gateway


@pytest.fixture
def person(gateway: GatewayUnderTest, tmp_path: Path) -> Iterator[ScreenTerminal]:
    folders = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "NO_COLOR": "1"}
    with ScreenTerminal(
        [str(PROGRAM), "sql", "--gateway", gateway.url], {**os.environ, **folders}
    ) as terminal:
        terminal.see(at_prompt, WAIT_S)
        yield terminal
        terminal.type(CTRL_D)
        assert terminal.wait_end(WAIT_S) == 0


def test_commands_tell_what_there_is_and_what_refreshes_did(person: ScreenTerminal) -> None:
    answered(
        person,
        "CREATE MATERIALIZED TABLE total FRESHNESS = INTERVAL '1' DAY AS SELECT count(*) AS n FROM numbers;",
    )
    answered(person, "CREATE FUNCTION twice(a INT) RETURN 2 * a;")

    assert cells(person, r"\dt default") == cells(person, r"\dt") == ["numbers", "total"]
    assert (cells(person, r"\l lake"), cells(person, r"\df")) == (["default"], ["twice"])
    assert re.fullmatch(
        r"lake\.default\.total: the INITIAL refresh of \S+ \S+ computed rows by recompute and ended as "
        r"SUCCEEDED, because: "
        r"never refreshed before\.",
        answered(person, r"\why total")[0],
    )
    root, source = answered(person, r"\lineage total")
    assert root.startswith("lake.default.total: OK, freshness INTERVAL '1' DAY, stale for ")
    assert source == "└── lake.default.numbers (table)"


def test_lineage_leads_through_views_down_to_the_sources(person: ScreenTerminal) -> None:
    for statement in (
        "CREATE VIEW evens AS SELECT id FROM numbers WHERE id % 2 = 0;",
        "CREATE MATERIALIZED TABLE few FRESHNESS = INTERVAL '1' DAY AS SELECT id FROM evens WHERE id < 9;",
        "CREATE MATERIALIZED TABLE fewer FRESHNESS = INTERVAL '1' DAY AS SELECT id FROM few LIMIT 1;",
    ):
        answered(person, statement)

    shown = answered(person, r"\lineage fewer")

    assert [line.partition(": OK")[0] for line in shown] == [
        "lake.default.fewer",
        "└── lake.default.few",
        "    ├── lake.default.numbers (table)",
        "    └── lake.default.evens (view)",
    ]
    answered(person, "DROP MATERIALIZED TABLE few CASCADE; DROP VIEW evens;")


def test_an_error_of_spark_has_carets_under_its_token_and_the_way_out(person: ScreenTerminal) -> None:
    assert answered(person, "SELECT id, nope FROM numbers;") == [
        (
            "Error: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, "
            "or function parameter with name `nope` cannot be resolved."
        ),
        "  SELECT id, nope FROM numbers",
        "             ^^^^",
        "Did you mean one of the following? [`id`]. SQLSTATE: 42703",
    ]


def test_a_statement_that_runs_shows_tasks_and_rows_until_it_is_cancelled(person: ScreenTerminal) -> None:
    nap = "java_method('java.lang.Thread', 'sleep', IF(id < 50000, 0L, 5L))"

    running = watched(
        person,
        f"SELECT max(nap) FROM (SELECT {nap} AS nap FROM range(0, 100000, 1, 4));",
        lambda lines: "rows read" in lines[-1],
    )
    person.type(CTRL_C)
    canceled = person.see(at_prompt, WAIT_S)

    assert re.search(r" [12] of [0-9]+ tasks, [1-9][0-9],[0-9]{3} rows read ", running[-1])
    assert canceled[-2].endswith("Cancelled.")


def test_a_result_without_end_is_printed_as_it_comes_until_it_is_cancelled(person: ScreenTerminal) -> None:
    answered(person, "SET 'sql-client.execution.result-mode' = 'tableau';")
    answered(person, "SET 'execution.runtime-mode' = 'streaming';")
    answered(
        person,
        "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'rate', 'rows-per-second' = '50');",
    )

    live = watched(
        person, "SELECT n FROM ticks;", lambda lines: sum(line.startswith("|") for line in lines) > 20
    )
    person.type(CTRL_C)
    canceled = person.see(at_prompt, WAIT_S)

    numbers = [line.strip("| ") for line in live if line.startswith("|") and "n" not in line]
    assert len({int(number) for number in numbers}) == len(numbers) > 0
    assert canceled[-2].endswith("Cancelled.")


def test_a_statement_for_which_spark_has_no_memory_says_what_to_do_and_the_next_one_runs(
    gateway: GatewayUnderTest, person: ScreenTerminal
) -> None:
    jvm = gateway.jvm_pid

    refused = answered(person, "SELECT size(sequence(1L, 200000000L + id)) FROM range(0, 2, 1, 1);")
    # Spark ends a JVM without memory itself.
    wait_until(lambda: not alive(jvm), "the JVM went on")
    wait_until(lambda: answers(gateway), "no other Spark was started")

    # The job and the JVM end at once: either of the two is told.
    assert refused[0].startswith("Error: Spark ran out of memory ")
    assert "LIMIT its rows, write them to a table, or raise spark.driver.memory" in " ".join(refused)
    assert cells(person, "SELECT count(*) AS n FROM numbers;") == ["100000"]


@pytest.mark.kills
def test_a_person_works_on_after_the_death_of_the_gateway(
    gateway: GatewayUnderTest, person: ScreenTerminal
) -> None:
    answered(person, "CREATE TEMPORARY VIEW few AS SELECT id FROM numbers WHERE id < 3;")
    gateway.kill()
    away = answered(person, "SELECT count(*) FROM few;")
    gateway.command += ["-D", f"sql-gateway.endpoint.rest.port={gateway.url.rpartition(':')[2]}"]
    gateway.start()

    lost = " ".join(answered(person, "SELECT count(*) FROM few;"))
    met = cells(person, "SELECT count(*) AS n FROM numbers;")

    assert away[0].startswith(f"Error: There is no gateway at {gateway.url} ")
    assert (
        "Its changes are lost: CREATE TEMPORARY VIEW few. Run them again first. This statement was not run."
        in lost
    )
    assert met == ["100000"]
