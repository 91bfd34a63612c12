"""Logging: all events to a file in the home folder, and warnings also to stderr."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from mt_core.base.request_id import request_id
from mt_core.base.secrets import MASK, is_secret, without_passwords

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
_MAX_BYTES, _BACKUPS = 20_000_000, 5


class RequestIdFilter(logging.Filter):
    """Adds `request_id` to each event of a thread that works for a request. It removes no event."""

    def filter(self, record: logging.LogRecord) -> bool:
        if request_id():
            record.request_id = request_id()
        return True


class JsonLines(logging.Formatter):
    """Formats an event as one line of JSON: time, level, logger, message, and the values in `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": without_passwords(record.getMessage()),
            **{key: _shown(key, value) for key, value in record.__dict__.items() if key not in _STANDARD},
        }
        if record.exc_info:
            event["exception"] = without_passwords(self.formatException(record.exc_info))
        return json.dumps(event, default=str)


class PlainLines(logging.Formatter):
    """Formats an event as a human-readable line for stderr, with the id of its request."""

    def format(self, record: logging.LogRecord) -> str:
        return without_passwords(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of logging
        identity = getattr(record, "request_id", "")
        return super().formatMessage(record) + (f" [request {identity}]" if identity else "")


def _shown(key: str, value: object) -> object:
    if is_secret(key):
        return MASK
    return without_passwords(value) if isinstance(value, str) else value


def log_to(folder: Path, *, verbose: bool) -> None:
    """Log to *folder*/gateway.log, and log warnings, or all events if *verbose*, to stderr."""
    file = RotatingFileHandler(
        folder / "gateway.log", maxBytes=_MAX_BYTES, backupCount=_BACKUPS, encoding="utf-8"
    )
    file.setFormatter(JsonLines())
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.INFO if verbose else logging.WARNING)
    console.setFormatter(PlainLines("%(asctime)s %(levelname)s %(message)s"))
    for handler in (file, console):
        handler.addFilter(RequestIdFilter())
    logging.basicConfig(level=logging.INFO, handlers=[file, console], force=True)
    for noisy in ("py4j", "httpx", "urllib3", "alembic", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
