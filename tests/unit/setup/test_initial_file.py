from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mt_core.cli import app
from mt_core.config import load_config
from mt_core.errors import ConfigError
from mt_core.setup.initial_file import Terminal, answers, file_text, questions, write_initial_file
from tests.support.terminal import Terminal as PseudoTerminal

ASKED = questions("./.freshtable", "Europe/Rome")
AIRFLOW = {
    "Scheduler (memory or airflow)": "airflow",
    "URL of Airflow": "https://airflow.example.com",
    "User of the gateway in Airflow": "svc",
}


def person(said: Mapping[str, str], shown: list[str] | None = None, *, agrees: bool = True) -> Terminal:
    """Return a person who says this, and else takes the defaults."""
    return Terminal(
        ask=lambda text, default: said.get(text, default),
        confirm=lambda _text: agrees,
        say=(shown if shown is not None else []).append,
    )


def test_the_file_of_all_defaults_is_a_configuration_and_has_what_each_setting_means(tmp_path: Path) -> None:
    file = tmp_path / "freshtable.yaml"

    write_initial_file(file, ASKED, None, defaults=True)

    config, text = load_config(file), file.read_text()
    assert config.text("table.local-time-zone") == "Europe/Rome"
    assert [token.name for token in config.tokens] == ["generated"]
    assert '# sql-gateway.endpoint.rest.port: "8083"\n' in text
    assert "# Port the gateway listens on; 0 takes any free port.\n" in text
    assert {key for key, _text, source in config.rows() if source != "default"} == {
        "table.local-time-zone",
        "sql-gateway.security.tokens",
    }
    assert file.stat().st_mode & 0o777 == 0o600


def test_airflow_is_asked_about_only_where_it_is_chosen(tmp_path: Path) -> None:
    file = tmp_path / "freshtable.yaml"

    write_initial_file(file, ASKED, person(AIRFLOW))

    config = load_config(file)
    assert config.scheduler_options() == {"endpoint": "https://airflow.example.com", "user-name": "svc"}
    assert "export FRESHTABLE_WORKFLOW_SCHEDULER_AIRFLOW_PASSWORD=" in file.read_text()
    assert "airflow.endpoint" not in file_text(file, answers(ASKED, lambda _text, default: default, print))


def test_an_answer_that_the_setting_refuses_is_asked_for_again(tmp_path: Path) -> None:
    ports, shown = iter(["many", "70000", "9000"]), list[str]()
    typed = Terminal(
        ask=lambda text, default: next(ports) if text == "Port" else default,
        confirm=lambda _text: True,
        say=shown.append,
    )

    write_initial_file(tmp_path / "f.yaml", ASKED, typed)

    assert load_config(tmp_path / "f.yaml").integer("sql-gateway.endpoint.rest.port") == 9000
    assert len(shown) == 2
    assert "sql-gateway.endpoint.rest.port: 'many'" in shown[0]


@pytest.mark.parametrize("answer", ["a: b", "# no", 'it\'s "so"', "/data/größe", "[x", "yes"])
def test_any_answer_comes_back_from_the_file_as_it_was_given(tmp_path: Path, answer: str) -> None:
    write_initial_file(tmp_path / "f.yaml", ASKED, person({"Warehouse (empty: in the home folder)": answer}))

    assert load_config(tmp_path / "f.yaml").text("catalog.warehouse") == answer


def test_a_file_that_exists_is_replaced_only_if_the_person_agrees(tmp_path: Path) -> None:
    file = tmp_path / "freshtable.yaml"
    file.write_text("table.local-time-zone: UTC\n")

    for terminal, defaults in ((person({}, agrees=False), False), (None, True)):
        with pytest.raises(ConfigError, match="exists and was not changed; delete it, or name another"):
            write_initial_file(file, ASKED, terminal, defaults=defaults)
    kept = file.read_text()
    write_initial_file(file, ASKED, person({}))

    assert kept == "table.local-time-zone: UTC\n"
    assert "Europe/Rome" in file.read_text()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory; name another file"):
        write_initial_file(tmp_path / "none" / "f.yaml", ASKED, None, defaults=True)


def test_nobody_is_asked_without_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "freshtable.yaml"

    refused = CliRunner().invoke(app, ["init", "-o", str(file)])
    left = file.exists()
    written = CliRunner().invoke(app, ["init", "-o", str(file), "--yes"])

    assert (refused.exit_code, left) == (2, False)
    assert refused.stderr.startswith(
        "Error: freshtable init asks questions, and standard input is not a terminal; --yes"
    )
    assert (written.exit_code, written.stdout) == (
        0,
        f"Wrote {file}. Check it: freshtable doctor -c {file}; start: freshtable gateway -c {file}\n",
    )


def test_a_person_at_a_terminal_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "freshtable.yaml"
    command = [sys.executable, "-m", "mt_core", "init", "-o", str(file)]
    with PseudoTerminal(command, os.environ) as terminal:
        terminal.wait_for(r"Home folder \[\./\.freshtable\]: $")
        for following in (r"listen on \[127\.0\.0\.1\]: $", r"Port \[8083\]: $", r"Tokens.*\[generate\]: $"):
            terminal.enter("", following)
        for following in (r"registry.*: $", r"catalog.*: $", r"Warehouse.*: $", r"Time zone.*: $"):
            terminal.enter("", following)
        terminal.enter("UTC", r"Scheduler.*\[memory\]: $")
        terminal.enter("", "Wrote")
        exit_code = terminal.wait_end()

    assert exit_code == 0
    assert load_config(file).text("table.local-time-zone") == "UTC"


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "freshtable.yaml"
    folder.mkdir()
    terminal = Terminal(ask=lambda _text, default: default, confirm=lambda _text: True, say=print)

    with pytest.raises(
        ConfigError, match=r"freshtable\.yaml cannot be written: Is a directory; name another file"
    ):
        write_initial_file(folder, questions("./home", "UTC"), terminal)

    assert list(tmp_path.iterdir()) == [folder]
