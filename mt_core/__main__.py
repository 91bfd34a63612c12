"""`python -m mt_core` is the command `freshtable`."""

from mt_core.cli import app

app()
