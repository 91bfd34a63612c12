"""Objects of the JVM behind a Spark session, and Python's form of its collections and arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import SPARK_ERRORS

_SPARK_SESSION = "org.apache.spark.sql.classic.SparkSession"

# The state of each session; Spark creates it at the first call.
_states: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
# Static members by their path, and objects without a state of their own, for each JVM.
_lasting: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """Make *session* the one whose settings the JVM reads for this thread;
    parser and catalogs called directly need it.
    """
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
    """Return the static member of a Java class at *path*, from a cache:
    py4j asks the JVM for every part of a path.
    """
    return _once(session, path, lambda: reduce(getattr, path.split("."), session._jvm))


def static_value(session: SparkSession, path: str) -> Any:
    """Return what the static method at *path*, without parameters, gives; from a cache.

    py4j does not find a static method if Java lists one of an object with the same name before it,
    in an order of its own.
    """

    def make() -> Any:
        return _method(session, path).invoke(None, _array(session, "java.lang.Object", ()))

    return _once(session, f"{path}()", make)


def java_class(session: SparkSession, name: str) -> Any:
    """Return Java's own object of a class, from a cache."""

    def make() -> Any:
        # The loader of py4j, which would be taken otherwise, has no classes of the jars that Spark was given.
        loader = static_member(session, "java.lang.Thread.currentThread")().getContextClassLoader()
        return static_member(session, "java.lang.Class.forName")(name, True, loader)

    return _once(session, f"{name}.class", make)


def own_class(session: SparkSession, path: str) -> Any:
    """Return our class at *path*, from a cache."""

    def make() -> Any:
        # Loaded here: py4j takes a path whose class it does not find for a package.
        java_class(session, path)
        return static_member(session, path)

    return _once(session, f"{path}?", make)


def java_dataset(session: SparkSession, plan: Any) -> Any:
    """Return the Dataset of a logical plan: a query is analysed, a command has run."""
    return static_member(session, "org.apache.spark.sql.classic.Dataset.ofRows")(session._jsparkSession, plan)


def class_name(node: Any) -> str:
    """Return the name of the class of an object, such as a node of a plan, without its package;
    empty for None.
    """
    return "" if node is None else str(node.getClass().getSimpleName())


def java_items(collection: Any) -> list[Any]:
    """Return the items of a Java collection; py4j's own iterator ends with an error
    that takes 70 calls to read.
    """
    items = collection.toArray()
    return [items[index] for index in range(len(items))]


def scala_items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala Seq, each by a call of its own."""
    return (sequence.apply(index) for index in range(sequence.size()))


def scala_sequence(session: SparkSession, items: Sequence[Any]) -> Any:
    """Return *items*, texts or objects of the JVM, as a Scala Seq."""
    array = static_member(session, "java.util.ArrayList")()
    for item in items:
        array.add(item)
    return static_member(session, "scala.jdk.javaapi.CollectionConverters.asScala")(array).toSeq()


def java_strings(session: SparkSession, texts: Sequence[str | None]) -> Any:
    """Return *texts* as a Java String[]."""
    return _from_json(session, "[Ljava.lang.String;", texts)


def java_map(session: SparkSession, values: Mapping[str, str]) -> Any:
    """Return *values* as a Java map."""
    return _from_json(session, "java.util.HashMap", values)


def texts(session: SparkSession, collection: Any) -> list[str]:
    """Return the texts of a Java collection, which all come with one answer."""
    found: list[str] = json.loads(json_of(session, collection))
    return found


def json_of(session: SparkSession, value: Any) -> str:
    """Return a Java object of texts and numbers as JSON, which comes with one answer."""
    return str(_mapper(session).writeValueAsString(value))


def text_map(session: SparkSession, java: Any) -> dict[str, str]:
    """Return a Java map of texts, which all come with one answer."""
    found: dict[str, str] = json.loads(json_of(session, java))
    return found


def spark_identifier(session: SparkSession, parts: Sequence[str]) -> Any:
    """Return Spark's Identifier for a name without its catalog."""
    of = static_member(session, "org.apache.spark.sql.connector.catalog.Identifier.of")
    return of(java_strings(session, parts[:-1]), parts[-1])


def _method(session: SparkSession, path: str) -> Any:
    """Return Java's own object of the method at *path* that has no parameters."""
    declaring, _, name = path.rpartition(".")
    return java_class(session, declaring).getMethod(name, _array(session, "java.lang.Class", ()))


def _array(session: SparkSession, class_name: str, items: Sequence[Any]) -> Any:
    gateway: Any = session.sparkContext._gateway
    array = gateway.new_array(static_member(session, class_name), len(items))
    for index, item in enumerate(items):
        array[index] = item
    return array


def _from_json(
    session: SparkSession, class_name: str, value: Sequence[str | None] | Mapping[str, str]
) -> Any:
    """Return *value* as an object of a Java class: its items by calls of their own would take one each."""
    reader = _once(
        session, f"{class_name}{{}}", lambda: _mapper(session).readerFor(java_class(session, class_name))
    )
    return reader.readValue(json.dumps(value))


def _mapper(session: SparkSession) -> Any:
    path = "com.fasterxml.jackson.databind.ObjectMapper"
    return _once(session, f"{path}{{}}", static_member(session, path))


def _once(session: SparkSession, key: str, make: Callable[[], Any]) -> Any:
    jvm: Any = session._jvm
    objects = _lasting.setdefault(jvm, {})
    if key not in objects:
        objects[key] = make()
    return objects[key]
