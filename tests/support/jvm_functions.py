"""Methods of Java's own classes as Java Functions, for tests of code that accepts a function."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import java_class, static_member


def java_function(session: SparkSession, path: str) -> Any:
    """Return a Java Function that calls the method at *path*, which must not have parameters."""
    lookup = static_member(session, "java.lang.invoke.MethodHandles.publicLookup")()
    implement = static_member(session, "java.lang.invoke.MethodHandleProxies.asInterfaceInstance")
    function = java_class(session, "java.util.function.Function")
    return implement(function, lookup.unreflect(_method(session, path)))


def _method(session: SparkSession, path: str) -> Any:
    declaring, _, name = path.rpartition(".")
    return java_class(session, declaring).getMethod(name, _none(session, "java.lang.Class"))


def _none(session: SparkSession, class_name: str) -> Any:
    gateway: Any = session.sparkContext._gateway
    return gateway.new_array(static_member(session, class_name), 0)
