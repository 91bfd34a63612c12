"""A sitting: what a person at the prompt has chosen and done so far, which commands read and change."""

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
    """Whose keys move and delete at the prompt."""

    EMACS = "emacs"
    VI = "vi"

    @classmethod
    def named(cls, name: str) -> Keys:
        """Return the keys of a name; raises ConfigError."""
        if name not in set(cls):
            raise ConfigError(
                f"{EDITING_MODE}: '{name}' cannot be used; expected {' or '.join(cls)}.", key=EDITING_MODE
            )
        return cls(name)


@dataclass(kw_only=True)
class Sitting:
    """`last` is the statement that ran last, `typed` what a command left to be run or completed,
    `wait` waits for seconds.

    `history` is the file of statements typed, None for the user's own.
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
        """Print a message for the person as it is, beside the rows."""
        self.runner.screen.messages.print(text, soft_wrap=True, markup=False)

    def edit(self, text: str) -> str:
        """Return *text* as the person's own editor leaves it; raises ConfigError if there is none,
        or it fails.
        """
        command = next((self.environ[name] for name in _EDITORS if self.environ.get(name)), "vi")
        # Others must not read a statement: the folder is the person's own.
        with TemporaryDirectory(prefix="freshtable-") as folder:
            file = Path(folder) / "statement.sql"
            file.write_text(text, encoding="utf-8")
            try:
                ended = subprocess.run([*shlex.split(command), str(file)], check=False)
                edited = file.read_text(encoding="utf-8")
            except (OSError, ValueError) as cause:
                raise ConfigError(
                    f"The editor '{command}' cannot be used: {cause}; set EDITOR to another."
                ) from cause
        if ended.returncode != 0:
            raise ConfigError(
                f"The editor '{command}' ended with {ended.returncode}; what it left is not used."
            )
        return edited
