"""Where the id of a request comes from, and which lines of the log have it."""

from __future__ import annotations

import json
import logging
import re
from queue import SimpleQueue

import pytest

from mt_core.app.logs import JsonLines, PlainLines, RequestIdFilter
from mt_core.base.background import start_thread
from mt_core.base.request_id import request_id, working_for
from mt_core.gateway.http.request_ids import id_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NEW = re.compile("[0-9a-f]{32}")


def named(**headers: str) -> str:
    return id_of((name.replace("_", "-").encode(), text.encode()) for name, text in headers.items())


@pytest.mark.parametrize("chosen", ["a", "Load-2026.11.28_7", "x" * 64])
def test_a_client_may_choose_the_id_of_its_request(chosen: str) -> None:
    assert named(freshtable_request_id=chosen, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01") == chosen


@pytest.mark.parametrize("chosen", ["", "x" * 65, "two words", "a\nb", "é", 'a"b'])
def test_an_id_that_the_gateway_could_not_log_as_it_is_gets_replaced(chosen: str) -> None:
    assert NEW.fullmatch(named(freshtable_request_id=chosen))


@pytest.mark.parametrize(
    "parent",
    [
        f"00-{TRACE}-00f067aa0ba902b7-01",
        f"cc-{TRACE}-00f067aa0ba902b7-00",
        f"01-{TRACE}-00f067aa0ba902b7-01-x",
    ],
)
def test_a_request_of_a_trace_has_the_id_of_the_trace(parent: str) -> None:
    assert named(traceparent=parent) == TRACE


@pytest.mark.parametrize(
    "parent",
    [
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-00f067aa0ba902b7-01-x",
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{TRACE}",
        "",
    ],
)
def test_a_trace_that_is_not_valid_is_ignored(parent: str) -> None:
    identity = named(traceparent=parent)

    assert NEW.fullmatch(identity)
    assert identity != TRACE


def test_each_other_request_has_an_id_of_its_own() -> None:
    assert len({named(host="localhost") for _ in range(100)}) == 100


def test_a_thread_that_work_starts_works_for_the_same_request() -> None:
    seen = SimpleQueue[str]()

    with working_for("r-1"):
        start_thread("part", lambda: seen.put(request_id()))
    start_thread("other", lambda: seen.put(request_id()))

    assert sorted([seen.get(timeout=10), seen.get(timeout=10)]) == ["", "r-1"]
    assert request_id() == ""


def test_the_lines_of_the_log_about_a_request_name_it() -> None:
    def logged(text: str) -> logging.LogRecord:
        record = logging.getLogger("t").makeRecord("t", logging.WARNING, "f", 1, text, (), None)
        assert RequestIdFilter().filter(record)
        return record

    with working_for("r-1"):
        of_request = logged("slow")
    of_none = logged("idle")

    assert json.loads(JsonLines().format(of_request))["request_id"] == "r-1"
    assert "request_id" not in json.loads(JsonLines().format(of_none))
    assert [PlainLines("%(message)s").format(each) for each in (of_request, of_none)] == [
        "slow [request r-1]",
        "idle",
    ]
