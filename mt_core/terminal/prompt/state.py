"""The state of the prompt, which commands read and change."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from mt_core.errors import ConfigError
from mt_core.terminal.script import Runner

PROMPT, CONTINUATION = "freshtable> ", "         -> "
EDITING_MODE = "editing-mode"
_EDITORS = ("VISUAL", "EDITOR")


class Keys(StrEnum):
    """The key bindings of the prompt."""

    EMACS = "emacs"
    VI = "vi"

    @classmethod
    def named(cls, name: str) -> Keys:
        """Return the key bindings named *name*. Raises ConfigError."""
        if name not in set(cls):
            raise ConfigError(
                f"{EDITING_MODE}: '{name}' cannot be used; expected {' or '.join(cls)}.", key=EDITING_MODE
            )
        return cls(name)


@dataclass(kw_only=True)
class PromptState:
    """The state of the prompt.

    `last` is the last statement that ran, and `typed` is the text that a command left to be run or completed.
    `wait` sleeps for a number of seconds. `history` is the history file, or None for the user's default.
    """

    runner: Runner
    environ: Mapping[str, str]
    keys: Keys = Keys.EMACS
    history: Path | None = None
    wait: Callable[[float], object] = time.sleep
    last: str = ""
    typed: str = ""
    has_left: bool = False

    def say(self, text: str) -> None:
        """Print *text* unchanged for the user, on stderr."""
        self.runner.screen.messages.print(text, soft_wrap=True, markup=False)

    def edit(self, text: str) -> str:
        """Return *text* as edited in the user's editor.

        Raises ConfigError if the editor is missing or fails.
        """
        command = next((self.environ[name] for name in _EDITORS if self.environ.get(name)), "vi")
        # Other users must not read a statement, so the folder is private.
        with TemporaryDirectory(prefix="freshtable-") as folder:
            file = Path(folder) / "statement.sql"
            file.write_text(text, encoding="utf-8")
            try:
                process = subprocess.run([*shlex.split(command), str(file)], check=False)
                edited = file.read_text(encoding="utf-8")
            except (OSError, ValueError) as cause:
                raise ConfigError(
                    f"The editor '{command}' cannot be used: {cause}; set EDITOR to another."
                ) from cause
        if process.returncode != 0:
            raise ConfigError(
                f"The editor '{command}' exited with {process.returncode}; its text is discarded."
            )
        return edited
