from __future__ import annotations

from pathlib import Path

import pytest

from mt_core.errors import ConfigError
from mt_core.terminal.configuration import (
    ClientConfiguration,
    own_file,
    read_assignments,
    read_file,
    read_files,
)
from mt_core.terminal.display import Display, ResultMode, check_keys
from mt_core.terminal.script import first_read

OWN = """
gateway: http://own:8083
catalog: lake
init: own.sql
jars: [a.jar, "s3://jars/b.jar"]
properties:
  table.dml-sync: true
  sql-client.execution.result-mode: tableau
"""
SESSION = """
catalog: other
init: [session.sql]
properties: {table.dml-sync: false}
"""


def test_a_file_of_the_user_that_cannot_be_looked_for_is_as_none(tmp_path: Path) -> None:
    # Root can look into any folder; this is the other way to an OSError.
    assert read_files(tmp_path / ("long" * 100), None) == ClientConfiguration()


def test_the_session_file_is_over_the_users_own_file_and_paths_begin_at_the_folder_of_their_file(
    tmp_path: Path,
) -> None:
    own, session = tmp_path / "own" / "client.yaml", tmp_path / "session.yaml"
    own.parent.mkdir()
    own.write_text(OWN)
    session.write_text(SESSION)

    both, alone, none = (
        read_files(own, session),
        read_files(tmp_path / "no", session),
        read_files(tmp_path / "no", None),
    )

    assert both == ClientConfiguration(
        gateway="http://own:8083",
        catalog="other",
        init=(str(own.parent / "own.sql"), str(tmp_path / "session.sql")),
        jars=(str(own.parent / "a.jar"), "s3://jars/b.jar"),
        properties={"table.dml-sync": "false", "sql-client.execution.result-mode": "tableau"},
    )
    assert (alone.gateway, alone.catalog) == (None, "other")
    assert none == ClientConfiguration()


def test_the_keys_of_the_prompt_are_a_setting(tmp_path: Path) -> None:
    file = tmp_path / "client.yaml"
    file.write_text("editing-mode: vi\n")

    assert read_file(file) == ClientConfiguration(editing_mode="vi")


def test_the_file_of_the_history_is_a_setting_that_begins_at_the_folder_of_the_settings(
    tmp_path: Path,
) -> None:
    file = tmp_path / "client.yaml"
    file.write_text("history: old/typed\n")

    assert read_file(file) == ClientConfiguration(history=str(tmp_path / "old" / "typed"))


def test_the_command_line_is_over_the_files() -> None:
    files = ClientConfiguration(
        gateway="http://a:1", schema="s", init=("a",), properties={"k": "1", "l": "1"}
    )
    asked = ClientConfiguration(gateway="http://b:1", init=("b",), properties={"k": "2"})

    assert asked.over(files) == ClientConfiguration(
        gateway="http://b:1", schema="s", init=("a", "b"), properties={"k": "2", "l": "1"}
    )


def test_the_users_own_file_is_in_the_configuration_folder() -> None:
    assert own_file({"HOME": "/home/ada"}) == Path("/home/ada/.config/freshtable/client.yaml")
    assert own_file({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/ada"}) == Path(
        "/etc/ada/freshtable/client.yaml"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gatewai: x", "there is no key gatewai; did you mean gateway?"),
        ("colour: x", "there is no key colour; the keys are catalog, editing-mode, format, gateway"),
        ("catalog: [a]", "catalog is '['a']'; expected a string."),
        ("jars: {a: b}", "jars is '{'a': 'b'}'; expected a path, or a list of paths."),
        ("properties: [a]", "properties is '['a']'; expected keys with values."),
        ("- a", "has no keys; write for example gateway: http://127.0.0.1:8083"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_its_name_and_key(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "client.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError) as refused:
        read_file(file)

    assert str(refused.value).startswith(str(file))
    assert reason in str(refused.value)


def test_an_assignment_has_a_key_and_a_value() -> None:
    assert read_assignments(["a.b = c=d", "e="]) == {"a.b": "c=d", "e": ""}
    for text in ("a", "=b"):
        with pytest.raises(ConfigError, match=r"write for example -D table\.dml-sync=true"):
            read_assignments([text])


def test_a_display_has_flinks_defaults_and_what_the_session_says() -> None:
    properties = {
        "sql-client.execution.result-mode": "TABLEAU",
        "sql-client.execution.max-table-result.rows": "10",
        "sql-client.verbose": "true",
        "sql-client.display.print-time-cost": "false",
        "sql-client.display.max-column-width": "20",
        "execution.runtime-mode": "STREAMING",
    }

    assert Display.of({}) == Display(
        mode=ResultMode.TABLE,
        most_rows=1_000_000,
        verbose=False,
        time_cost=True,
        column_width=30,
        streaming=False,
    )
    assert Display.of(properties) == Display(
        mode=ResultMode.TABLEAU, most_rows=10, verbose=True, time_cost=False, column_width=20, streaming=True
    )
    assert Display.of({**properties, "table.display.max-column-width": "40"}).column_width == 40


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("sql-client.execution.result-mode", "tables", "table, changelog or tableau"),
        ("sql-client.execution.max-table-result.rows", "0", "a whole number above 0"),
        ("table.display.max-column-width", "wide", "a whole number above 0"),
        ("sql-client.verbose", "yes", "true or false"),
        (
            "sql-client.display.color-schema",
            "pink",
            "default, dark, light, chester, vs2010, solarized, obsidian or geshi",
        ),
    ],
)
def test_a_property_of_the_client_that_cannot_be_used_is_named(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Display.of({key: value})

    assert str(refused.value) == f"{key}: '{value}' cannot be used; expected {expected}."


def test_a_misspelt_property_of_the_client_is_refused_with_the_nearest_one() -> None:
    check_keys({"sql-client.display.color-schema": "dark", "table.anything": "x"})

    with pytest.raises(
        ConfigError, match=r"no property sql-client\.verbos; did you mean sql-client\.verbose\?"
    ):
        check_keys({"sql-client.verbos": "true"})


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("SET a = 1; CREATE VIEW v AS SELECT 1;", None),
        ("SET a = 1;\nselect 1;", 2),
        ("-- SELECT\n(SELECT 1)", 2),
        ("/*+ x */ USE lake", None),
        ("WITH a AS (SELECT 1) SELECT * FROM a", 1),
        ("\n\nINSERT INTO t VALUES (1)", 3),
        ("", None),
    ],
)
def test_the_first_statement_that_reads_or_inserts_rows_is_found(script: str, line: int | None) -> None:
    found = first_read(script)

    assert (None if found is None else found.line) == line
