"""What a session has added to Spark: catalogs and jars."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedCatalog:
    """A catalog of CREATE CATALOG: its options as written, and the settings of Spark they mean."""

    name: str
    options: Mapping[str, str]
    settings: Mapping[str, str]
    comment: str | None = None


class SessionResources:
    """Catalogs and jars of one session; RESET leaves them alone. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalogs: dict[str, CreatedCatalog] = {}
        self._jars: dict[str, None] = {}

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that all created catalogs come to."""
        with self._lock:
            return {key: value for created in self._catalogs.values() for key, value in created.settings.items()}

    @property
    def jars(self) -> list[str]:
        """The jars, in the order in which they were added."""
        with self._lock:
            return list(self._jars)

    def catalog(self, name: str) -> CreatedCatalog | None:
        """Return a catalog that this session created, None for any other."""
        with self._lock:
            return self._catalogs.get(name)

    def put_catalog(self, catalog: CreatedCatalog) -> None:
        with self._lock:
            self._catalogs[catalog.name] = catalog

    def remove_catalog(self, name: str) -> None:
        """Forget a catalog; harmless when there is none."""
        with self._lock:
            self._catalogs.pop(name, None)

    def add_jar(self, path: str) -> None:
        with self._lock:
            self._jars[path] = None
