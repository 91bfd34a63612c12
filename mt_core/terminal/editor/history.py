"""The history of typed statements, in a file that only its owner can read.

Each statement or command is one entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from mt_core.base.secrets import is_secret, statement_text
from mt_core.base.tokens import split_statements
from mt_core.errors import SqlSyntaxError
from mt_core.terminal.prompt.typed import SET, command_parts, edited_part, is_command, key_and_value

MOST_ENTRIES = 10_000


def history_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the history file, which may not exist."""
    folder = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".local" / "state"
    return Path(folder) / "freshtable" / "sql_history"


class StatementHistory(History):
    """The entries of the file at *path*, one JSON string per line.

    Because of this format, several clients can append concurrently. A statement with a secret is remembered
    until the client exits, but not written. The same applies to every statement if the file cannot be
    written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def append_string(self, string: str) -> None:
        """Add each statement of *string*, unless it equals the newest entry."""
        for entry in entries_of(string):
            if self._loaded_strings[:1] != [entry]:
                super().append_string(entry)

    def load_history_strings(self) -> Iterable[str]:
        """Yield the last `MOST_ENTRIES` entries of the file, newest first.

        An unreadable file yields nothing, and unreadable lines are omitted.
        """
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return
        for line in reversed(lines[-MOST_ENTRIES:]):
            # A crash may have left a partial line.
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, str):
                    yield entry

    def store_string(self, string: str) -> None:
        """Append an entry to the file, unless it contains a secret."""
        if statement_text(string, len(string)) != string or _sets_secret(string):
            return
        # A statement must run even if the history cannot be written.
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, (json.dumps(string, ensure_ascii=False) + "\n").encode())
            finally:
                os.close(file)


def _sets_secret(entry: str) -> bool:
    name, argument = command_parts(entry)
    key, value = key_and_value(argument)
    return name == SET and bool(value) and is_secret(key)


def entries_of(typed: str) -> list[str]:
    """Return the statements of *typed* with their semicolons.

    A command, or SQL that cannot be split, is a single entry. A last line that opens an editor is omitted.
    """
    above = edited_part(typed)
    text = (above if above else typed).strip()
    if not text or is_command(text):
        return [text] if text else []
    try:
        statements = split_statements(text)
    except SqlSyntaxError:
        return [text]
    return [f"{each.text};" if each.terminated else each.text for each in statements]
