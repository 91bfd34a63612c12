from __future__ import annotations

import gc
import threading

import pytest

from mt_core.base.statement.session_changes import session_change
from mt_core.client.session import Heartbeat


@pytest.mark.parametrize(
    ("statement", "change"),
    [
        ("SET 'a.b' = 'secret';", "SET 'a.b'"),
        ("set a.b=secret", "set a.b"),
        ("-- note\n/* more */ USE CATALOG lake;", "USE CATALOG lake"),
        ("RESET 'a'", "RESET 'a'"),
        ("CREATE OR REPLACE TEMPORARY VIEW `v w`(a) AS SELECT 1", "CREATE OR REPLACE TEMPORARY VIEW `v"),
        ("CREATE TEMPORARY FUNCTION f AS 'x'", "CREATE TEMPORARY FUNCTION f"),
        ("ADD JAR '/x.jar'", "ADD JAR '/x.jar'"),
        ("CACHE TABLE c AS SELECT 1", "CACHE TABLE c"),
        ("DECLARE VARIABLE n = 1", "DECLARE VARIABLE n"),
        ("SELECT 1", None),
        ("CREATE TABLE t (a INT)", None),
        ("CREATE VIEW v AS SELECT 1", None),
        ("INSERT INTO t SELECT 'USE x'", None),
        ("", None),
    ],
)
def test_what_a_statement_changes_in_its_session_is_named_without_values(
    statement: str, change: str | None
) -> None:
    assert session_change(statement) == change


def test_the_heartbeats_of_a_client_that_was_dropped_end() -> None:
    class Client:
        def __init__(self) -> None:
            self.beaten = threading.Event()
            self.heartbeat = Heartbeat(self.beat, 0.001)
            self.heartbeat.start()

        def beat(self) -> None:
            self.beaten.set()

    before = set(threading.enumerate())
    client = Client()
    assert client.beaten.wait(60)
    [thread] = set(threading.enumerate()) - before

    del client
    gc.collect()

    thread.join(60)
    assert not thread.is_alive()


def test_a_client_closed_in_the_middle_of_a_heartbeat_ends_it_without_an_error() -> None:
    errors: list[threading.ExceptHookArgs] = []
    begun, closed = threading.Event(), threading.Event()

    class Client:
        def __init__(self) -> None:
            self.heartbeat = Heartbeat(self.beat, 0.001)

        def beat(self) -> None:
            begun.set()
            assert closed.wait(60)
            raise RuntimeError("Cannot send a request, as the client has been closed.")

    before, hook = set(threading.enumerate()), threading.excepthook
    threading.excepthook = errors.append
    try:
        client = Client()
        client.heartbeat.start()
        [thread] = set(threading.enumerate()) - before
        assert begun.wait(60)
        client.heartbeat.stop()
        closed.set()
        thread.join(60)
    finally:
        threading.excepthook = hook

    assert (thread.is_alive(), errors) == (False, [])
