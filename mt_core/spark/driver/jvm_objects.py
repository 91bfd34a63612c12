"""Access to the JVM behind a Spark session: static members, classes, and conversion of collections.

py4j makes one round trip for each step: each part of a path such as `org.apache.spark`, each item of a
collection, each entry of a map. Paths and stateless objects are therefore cached per JVM, and collections
are transferred as one JSON text.
"""

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

# The SessionState of each session, which Spark creates at the first call.
_states: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
# For each JVM: its static members by path, and stateless objects.
_by_jvm: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """Make *session* the JVM's active session in this thread within the block.

    The parser and the catalogs read its settings if they are called directly.
    """
    set_active = static_member(session, f"{_SPARK_SESSION}.setActiveSession")
    previous = static_member(session, f"{_SPARK_SESSION}.getActiveSession")()
    set_active(session._jsparkSession)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):
            if previous.isDefined():
                set_active(previous.get())
            else:
                static_member(session, f"{_SPARK_SESSION}.clearActiveSession")()


def state_of(session: SparkSession) -> Any:
    """Return the SessionState of *session*, with its parser, catalog manager and session catalog."""
    state = _states.get(session)
    if state is None:
        state = _states[session] = session._jsparkSession.sessionState()
    return state


def static_member(session: SparkSession, path: str) -> Any:
    """Return the static member of a Java class at *path*, from a cache."""
    return _cached(session, path, lambda: reduce(getattr, path.split("."), session._jvm))


def static_value(session: SparkSession, path: str) -> Any:
    """Return the result of the static method at *path*, which has no parameters, from a cache.

    This uses reflection, because py4j does not find a static method if Java happens to list an instance
    method with the same name first.
    """

    def make() -> Any:
        return _method(session, path).invoke(None, _array(session, "java.lang.Object", ()))

    return _cached(session, f"{path}()", make)


def java_class(session: SparkSession, name: str) -> Any:
    """Return the java.lang.Class with the name *name*, from a cache."""

    def make() -> Any:
        # py4j uses its own class loader by default, which does not see the jars in spark.jars.
        loader = static_member(session, "java.lang.Thread.currentThread")().getContextClassLoader()
        return static_member(session, "java.lang.Class.forName")(name, True, loader)

    return _cached(session, f"{name}.class", make)


def own_class(session: SparkSession, path: str) -> Any:
    """Return our Java class at *path*, from a cache."""

    def make() -> Any:
        # Load the class first, because py4j takes the path of a class that is not loaded for a package.
        java_class(session, path)
        return static_member(session, path)

    return _cached(session, f"{path}?", make)


def java_dataset(session: SparkSession, plan: Any) -> Any:
    """Return the Dataset of a logical plan. A query is analysed, and a command is executed."""
    return static_member(session, "org.apache.spark.sql.classic.Dataset.ofRows")(session._jsparkSession, plan)


def class_name(node: Any) -> str:
    """Return the simple class name of a Java object such as a plan node, or an empty string for None."""
    return "" if node is None else str(node.getClass().getSimpleName())


def java_items(collection: Any) -> list[Any]:
    """Return the items of a Java collection.

    py4j's own iterator is slower: it ends with a Java exception, which takes 70 round trips to read.
    """
    items = collection.toArray()
    return [items[index] for index in range(len(items))]


def scala_items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala Seq, with one round trip for each."""
    return (sequence.apply(index) for index in range(sequence.size()))


def scala_sequence(session: SparkSession, items: Sequence[Any]) -> Any:
    """Return *items*, which are strings or Java objects, as a Scala Seq."""
    array = static_member(session, "java.util.ArrayList")()
    for item in items:
        array.add(item)
    return static_member(session, "scala.jdk.javaapi.CollectionConverters.asScala")(array).toSeq()


def java_strings(session: SparkSession, texts: Sequence[str | None]) -> Any:
    """Return *texts* as a Java String[]."""
    return _from_json(session, "[Ljava.lang.String;", texts)


def java_booleans(session: SparkSession, values: Sequence[bool]) -> Any:
    """Return *values* as a Java boolean[]."""
    return _from_json(session, "[Z", values)


def java_map(session: SparkSession, values: Mapping[str, str]) -> Any:
    """Return *values* as a Java map."""
    return _from_json(session, "java.util.HashMap", values)


def texts(session: SparkSession, collection: Any) -> list[str]:
    """Return a Java collection of strings as a list, in one round trip."""
    items: list[str] = json.loads(json_of(session, collection))
    return items


def json_of(session: SparkSession, value: Any) -> str:
    """Return a Java object that consists of strings and numbers as JSON, in one round trip."""
    return str(_mapper(session).writeValueAsString(value))


def text_map(session: SparkSession, java: Any) -> dict[str, str]:
    """Return a Java map of strings as a dictionary, in one round trip."""
    entries: dict[str, str] = json.loads(json_of(session, java))
    return entries


def spark_identifier(session: SparkSession, parts: Sequence[str]) -> Any:
    """Return Spark's Identifier for a name; *parts* do not include the catalog."""
    of = static_member(session, "org.apache.spark.sql.connector.catalog.Identifier.of")
    return of(java_strings(session, parts[:-1]), parts[-1])


def _method(session: SparkSession, path: str) -> Any:
    """Return the java.lang.reflect.Method at *path*, which has no parameters."""
    declaring, _, name = path.rpartition(".")
    return java_class(session, declaring).getMethod(name, _array(session, "java.lang.Class", ()))


def _array(session: SparkSession, class_name: str, items: Sequence[Any]) -> Any:
    gateway: Any = session.sparkContext._gateway
    array = gateway.new_array(static_member(session, class_name), len(items))
    for index, item in enumerate(items):
        array[index] = item
    return array


def _from_json(
    session: SparkSession, class_name: str, value: Sequence[str | bool | None] | Mapping[str, str]
) -> Any:
    """Return *value* as an object of a Java class, in one round trip instead of one per item."""
    reader = _cached(
        session, f"{class_name}{{}}", lambda: _mapper(session).readerFor(java_class(session, class_name))
    )
    return reader.readValue(json.dumps(value))


def _mapper(session: SparkSession) -> Any:
    path = "com.fasterxml.jackson.databind.ObjectMapper"
    return _cached(session, f"{path}{{}}", static_member(session, path))


def _cached(session: SparkSession, key: str, make: Callable[[], Any]) -> Any:
    jvm: Any = session._jvm
    objects = _by_jvm.setdefault(jvm, {})
    if key not in objects:
        objects[key] = make()
    return objects[key]
