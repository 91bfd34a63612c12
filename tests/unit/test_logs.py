"""Log events: one JSON object a line, without secrets."""

from __future__ import annotations

import json
import logging

from mt_core.app.logs import JsonLines, PlainLines


def test_no_password_gets_into_the_log() -> None:
    record = logging.getLogger("t").makeRecord(
        "t",
        logging.WARNING,
        "f",
        1,
        "no route to %s",
        ("jdbc:x://u:hunter2@h",),
        None,
        extra={"api_token": "hunter2"},
    )

    event, line = json.loads(JsonLines().format(record)), PlainLines("%(message)s").format(record)

    assert (event["message"], event["api_token"]) == ("no route to jdbc:x://u:***@h", "***")
    assert line == "no route to jdbc:x://u:***@h"


def test_no_password_of_an_exception_gets_into_the_log() -> None:
    error = ValueError("password=hunter2")

    record = logging.getLogger("t").makeRecord(
        "t",
        logging.ERROR,
        "f",
        1,
        "failed",
        (),
        (type(error), error, None),
        extra={"url": "redis://:hunter2@h"},
    )
    event = json.loads(JsonLines().format(record))

    assert "hunter2" not in str(event)
    assert "ValueError: password=***" in event["exception"]
