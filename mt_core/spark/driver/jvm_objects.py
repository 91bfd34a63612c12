"""Objects of the JVM behind a Spark session, and Python's form of its collections and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import SPARK_ERRORS

_SPARK_SESSION = "org.apache.spark.sql.classic.SparkSession"

# The state of each session; Spark creates it at the first call.
_states: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
# Static members by their path, for each JVM.
_static_members: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """Make *session* the one whose settings the JVM reads for this thread; parser and catalogs called directly need it."""
    set_active = static_member(session, f"{_SPARK_SESSION}.setActiveSession")
    before = static_member(session, f"{_SPARK_SESSION}.getActiveSession")()
    set_active(session._jsparkSession)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):
            if before.isDefined():
                set_active(before.get())
            else:
                static_member(session, f"{_SPARK_SESSION}.clearActiveSession")()


def state_of(session: SparkSession) -> Any:
    """Return the session's state in the JVM: parser, catalog manager, session catalog."""
    state = _states.get(session)
    if state is None:
        state = _states[session] = session._jsparkSession.sessionState()
    return state


def static_member(session: SparkSession, path: str) -> Any:
    """Return the static member of a Java class at *path*, from a cache: py4j asks the JVM for every part of a path."""
    jvm: Any = session._jvm
    members = _static_members.setdefault(jvm, {})
    if path not in members:
        members[path] = reduce(getattr, path.split("."), jvm)
    return members[path]


def java_dataset(session: SparkSession, plan: Any) -> Any:
    """Return the Dataset of a logical plan: a query is analysed, a command has run."""
    return static_member(session, "org.apache.spark.sql.classic.Dataset.ofRows")(session._jsparkSession, plan)


def java_items(collection: Any) -> list[Any]:
    """Return the items of a Java collection; py4j's own iterator ends with an error that takes 70 calls to read."""
    items = collection.toArray()
    return [items[index] for index in range(len(items))]


def scala_items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala Seq, each by a call of its own."""
    return (sequence.apply(index) for index in range(sequence.size()))


def java_strings(session: SparkSession, texts: Sequence[str]) -> Any:
    """Return *texts* as a Java String[]."""
    gateway: Any = session.sparkContext._gateway
    array = gateway.new_array(static_member(session, "java.lang.String"), len(texts))
    for index, text in enumerate(texts):
        array[index] = text
    return array


def java_map(session: SparkSession, values: Mapping[str, str]) -> Any:
    """Return *values* as a Java map."""
    java = static_member(session, "java.util.HashMap")()
    for key, value in values.items():
        java.put(key, value)
    return java


def spark_identifier(session: SparkSession, parts: Sequence[str]) -> Any:
    """Return Spark's Identifier for a name without its catalog."""
    of = static_member(session, "org.apache.spark.sql.connector.catalog.Identifier.of")
    return of(java_strings(session, parts[:-1]), parts[-1])
