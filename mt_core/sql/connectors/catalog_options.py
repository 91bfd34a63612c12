"""Translates the WITH options of CREATE CATALOG to Spark settings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.sql.connectors.kinds import with_driver

SUPPORTED = ("iceberg", "jdbc")
PREFIX = "spark.sql.catalog."
_CLASSES = {
    "iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "jdbc": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
}
_ICEBERG = {"catalog-type": "type", "default-database": "default-namespace"}
_JDBC = {"username": "user", "base-url": "url"}
_CLASS_NAME = re.compile(r"\w+(\.\w+)+")


def catalog_settings(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for the catalog *name*.

    Raises DefinitionInvalid or Unsupported naming the option.

    A `type` with dots is the class of a Spark catalog plug-in, whose options are passed unchanged.
    """
    if "." in name:
        raise DefinitionInvalid(
            f"Catalog `{name}`: the name of a catalog cannot contain a dot; choose another name."
        )
    kind = options.get("type")
    if kind is None:
        raise DefinitionInvalid(
            f"Catalog {name} needs the option 'type': {', '.join(SUPPORTED)}, "
            "or the class of a Spark catalog plug-in."
        )
    plugin = _CLASSES.get(kind.lower(), kind)
    if not _CLASS_NAME.fullmatch(plugin):
        raise Unsupported(
            f"Catalog {name}: type '{kind}' is not supported; supported are {', '.join(SUPPORTED)}, "
            "and the class of any Spark catalog plug-in."
        )
    rest = {key: value for key, value in options.items() if key != "type"}
    settings = _options(name, kind.lower(), rest)
    return {f"{PREFIX}{name}": plugin, **{f"{PREFIX}{name}.{key}": value for key, value in settings.items()}}


def configured_catalogs(settings: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the options of each catalog in Spark's *settings*; `type` is the class of the catalog."""
    catalogs: dict[str, dict[str, str]] = {}
    for key, value in settings.items():
        name, dot, option = (
            key.removeprefix(PREFIX).partition(".") if key.startswith(PREFIX) else ("", "", "")
        )
        if name and not dot:
            catalogs.setdefault(name, {})["type"] = value
        elif name:
            catalogs.setdefault(name, {}).setdefault("catalog-type" if option == "type" else option, value)
    return {name: options for name, options in catalogs.items() if "type" in options}


def _options(name: str, kind: str, options: Mapping[str, str]) -> dict[str, str]:
    if kind == "iceberg":
        if "catalog-type" not in options and "catalog-impl" not in options:
            raise DefinitionInvalid(
                f"Catalog {name}: type 'iceberg' needs the option 'catalog-type' "
                "(jdbc, rest, hadoop, hive …) or 'catalog-impl'."
            )
        # Without the cache, the catalog immediately sees what other processes commit.
        return {"cache-enabled": "false", **{_ICEBERG.get(key, key): value for key, value in options.items()}}
    if kind == "jdbc":
        return _jdbc(name, options)
    return dict(options)


def _jdbc(name: str, options: Mapping[str, str]) -> dict[str, str]:
    settings = {_JDBC.get(key, key): value for key, value in options.items() if key != "default-database"}
    if "url" not in settings:
        raise DefinitionInvalid(
            f"Catalog {name}: type 'jdbc' needs the option 'url', such as jdbc:postgresql://host/db."
        )
    if "base-url" in options and "default-database" in options:
        settings["url"] = f"{options['base-url'].rstrip('/')}/{options['default-database']}"
    return with_driver(settings)
