"""`freshtable init`: asks for settings, and writes them to a commented YAML file."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mt_core.config.settings import BY_KEY, Setting
from mt_core.config.values import value_of
from mt_core.errors import ConfigError

SCHEDULER_KEY = "workflow-scheduler.type"
AIRFLOW = "workflow-scheduler.airflow."
PASSWORD_VARIABLE = "FRESHTABLE_WORKFLOW_SCHEDULER_AIRFLOW_PASSWORD"
_WIDTH = 110
_HEAD = """Settings of a Freshtable gateway, written by freshtable init. docs/settings.md lists all settings.
Environment variables and -D key=value take precedence over this file.
freshtable doctor -c {file} checks them; freshtable gateway -c {file} starts a gateway with them."""
_PASSWORD = (
    f"# The password of that user is not stored in this file:\n# export {PASSWORD_VARIABLE}='<password>'"
)

Ask = Callable[[str, str], str]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a setting. If *when* is given, it is asked only if an earlier answer matches."""

    key: str
    text: str
    default: str
    when: tuple[str, str] | None = None
    help: str = ""

    @property
    def setting(self) -> Setting:
        return BY_KEY.get(self.key) or Setting(key=self.key, help=self.help)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The functions of the terminal: `ask` for an answer with a default, `confirm`, and `say` a line."""

    ask: Ask
    confirm: Callable[[str], bool]
    say: Say


def write_initial_file(
    file: Path, asked: tuple[Question, ...], terminal: Terminal | None, *, defaults: bool = False
) -> None:
    """Write *file* from the answers at *terminal*, or from the *defaults*.

    Raises ConfigError if there is no terminal to ask, or if the file exists and the user does not agree to
    replace it.
    """
    if terminal is None and not defaults:
        raise ConfigError(
            "freshtable init asks questions, and standard input is not a terminal; "
            "--yes accepts all defaults without questions."
        )
    if file.exists() and (
        defaults or terminal is None or not terminal.confirm(f"{file} exists. Replace it?")
    ):
        raise ConfigError(
            f"{file} exists and was not changed; delete it, or name another file with --output."
        )
    if defaults or terminal is None:
        answered = answers(asked, lambda _text, default: default, _refuse)
    else:
        answered = answers(asked, terminal.ask, terminal.say)
    _write(file, file_text(file, answered))


def _refuse(message: str) -> None:
    raise ConfigError(message)


def questions(home: str, zone: str) -> tuple[Question, ...]:
    """Return the questions, with *home* and the machine's time *zone* as defaults."""
    airflow = (SCHEDULER_KEY, "airflow")
    return (
        Question(key="freshtable.home", text="Home folder", default=home),
        Question(key="sql-gateway.endpoint.rest.address", text="Address to listen on", default="127.0.0.1"),
        Question(key="sql-gateway.endpoint.rest.port", text="Port", default="8083"),
        Question(
            key="sql-gateway.security.tokens",
            text="Tokens (generate: one in the home folder)",
            default="generate",
        ),
        Question(
            key="registry.url", text="Database of the registry (empty: SQLite in the home folder)", default=""
        ),
        Question(
            key="catalog.url", text="Database of the catalog (empty: SQLite in the home folder)", default=""
        ),
        Question(key="catalog.warehouse", text="Warehouse (empty: in the home folder)", default=""),
        Question(key="table.local-time-zone", text="Time zone", default=zone),
        Question(key=SCHEDULER_KEY, text="Scheduler (memory or airflow)", default="memory"),
        Question(
            key=f"{AIRFLOW}endpoint",
            text="URL of Airflow",
            default="http://127.0.0.1:8080",
            when=airflow,
            help="URL of Airflow's api-server.",
        ),
        Question(
            key=f"{AIRFLOW}user-name",
            text="User of the gateway in Airflow",
            default="freshtable",
            when=airflow,
            help="The user as whom the gateway logs in to Airflow.",
        ),
    )


def answers(asked: tuple[Question, ...], ask: Ask, say: Say) -> dict[str, str]:
    """Return the answers by key.

    *ask* is called with the text and the default of a question, and again if the setting rejects the answer.
    """
    answered: dict[str, str] = {}
    for question in asked:
        if question.when is None or answered.get(question.when[0]) == question.when[1]:
            answered[question.key] = _answer(question, ask, say)
    return answered


def file_text(file: Path, answered: Mapping[str, str]) -> str:
    """Return the answers as YAML, each below its explanation. Unchanged defaults are commented out."""
    parts = [_comment(line) for line in _HEAD.format(file=file).splitlines()]
    for key, answer in answered.items():
        setting = BY_KEY.get(key)
        parts += ["", _comment(_meaning(key))]
        unchanged = answer == (setting.default if setting else "")
        parts.append(f"{'# ' if unchanged else ''}{key}: {_scalar(answer)}".rstrip())
        if key == f"{AIRFLOW}user-name":
            parts.append(_PASSWORD)
    return "\n".join(parts) + "\n"


def _write(file: Path, text: str) -> None:
    """Write the file, readable only by its owner because URLs and tokens contain secrets.

    Raises ConfigError.
    """
    staged = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        with os.fdopen(
            os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as stream:
            stream.write(text)
        staged.replace(file)
    except OSError as cause:
        raise ConfigError(
            f"{file} cannot be written: {cause.strerror}; name another file with --output."
        ) from cause
    finally:
        # The staged file exists only if it was not renamed.
        with suppress(OSError):
            staged.unlink(missing_ok=True)


def _answer(question: Question, ask: Ask, say: Say) -> str:
    while True:
        answer = ask(question.text, question.default).strip()
        try:
            value_of(question.setting, answer, "your answer")
        except ConfigError as error:
            say(error.message)
            continue
        return answer


def _meaning(key: str) -> str:
    helps = {question.key: question.help for question in questions("", "")}
    return (BY_KEY[key].help if key in BY_KEY else helps[key]).replace("`", "")


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


def _scalar(text: str) -> str:
    # A JSON string is also a YAML string.
    return json.dumps(text, ensure_ascii=False) if text else ""
