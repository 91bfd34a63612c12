"""The third-party JavaScript and CSS of the page: files in WebJars, pinned by SHA-256.

A WebJar is an npm package as a jar of Maven. The resolver that downloads Spark's jars downloads them into the
same folder, but Spark does not load them: nothing in them is Java.

A browser runs these files with the rights of the person who has signed in, so only the bytes that a release
was tested with are served. A jar is read completely, compared with its hash, and unpacked from memory, so a
file that changes meanwhile has no effect. The page works without them, although without charts and live
updates, so neither a missing nor a wrong jar is an error.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

_ROOT = "META-INF/resources/webjars"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebJar:
    """A pinned jar. `files` maps the names of the page's files to their paths in the npm package."""

    package: str
    sha256: str
    files: Mapping[str, str]

    def unpack(self, content: bytes) -> dict[str, bytes]:
        """Return the page's files in the jar with this content, by name."""
        _, artifact, version = self.package.split(":")
        with zipfile.ZipFile(BytesIO(content)) as archive:
            return {
                name: archive.read(f"{_ROOT}/{artifact}/{version}/{path}")
                for name, path in self.files.items()
            }


WEB_JARS = (
    WebJar(
        package="org.webjars.npm:htmx.org:2.0.8",
        sha256="5f3932dad950015b9b9b19777530767661a8f1c5b2b2b1e1aea4ba9b7958fcc4",
        files={"htmx.js": "dist/htmx.min.js"},
    ),
    WebJar(
        package="org.webjars.npm:uplot:1.6.30",
        sha256="35b1d5d332ae25876ebd3b96c4a6180f29bec7675ad22dda9d3dc803691d19c9",
        files={"uplot.js": "dist/uPlot.iife.min.js", "uplot.css": "dist/uPlot.min.css"},
    ),
    WebJar(
        package="org.webjars.npm:codemirror:5.65.18",
        sha256="b3a093e6243df6dab5fcc8cb6e06905356c7cfaf2419d7390aa6a08775e70440",
        files={
            "codemirror.js": "lib/codemirror.js",
            "codemirror.css": "lib/codemirror.css",
            "codemirror-sql.js": "mode/sql/sql.js",
            "codemirror-hint.js": "addon/hint/show-hint.js",
            "codemirror-hint.css": "addon/hint/show-hint.css",
            "codemirror-placeholder.js": "addon/display/placeholder.js",
        },
    ),
)

Places = Callable[[str], Iterable[Path]]
"""Returns the paths at which the jar of a package may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarLookup:
    """What is at the paths of a jar: its content or None, and the reason for each file that was refused."""

    content: bytes | None
    refused: Mapping[Path, str]


def look_up(jar: WebJar, paths: Iterable[Path]) -> JarLookup:
    """Return the content of the first of *paths* that is *jar*, and the files before it that are not.

    A file that is not a zip archive, such as the rest of an interrupted download, counts as missing.
    """
    refused: dict[Path, str] = {}
    for path in paths:
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as cause:
            refused[path] = f"it cannot be read ({cause.strerror})"
            continue
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 == jar.sha256:
            return JarLookup(content=content, refused=refused)
        if zipfile.is_zipfile(BytesIO(content)):
            refused[path] = f"its SHA-256 is {sha256} instead of {jar.sha256}"
    return JarLookup(content=None, refused=refused)


class WebJarFiles:
    """The files of *jars*, kept in memory once they are read. Thread-safe.

    A jar that is missing or refused is looked for again in each call, so it is found after a download.
    """

    def __init__(self, places: Places, jars: Iterable[WebJar] = WEB_JARS) -> None:
        self._places, self._missing = places, tuple(jars)
        self._files: Mapping[str, bytes] = {}
        self._lock = threading.Lock()
        # The files that are not the pinned jar, by path, time and size. They are read again when they change.
        self._wrong: set[tuple[Path, int, int]] = set()

    def names(self) -> frozenset[str]:
        """Return the names of the files that are available now."""
        self._look()
        return frozenset(self._files)

    def file(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it is not available."""
        if name not in self._files:
            self._look()
        return self._files.get(name)

    def missing(self) -> Sequence[WebJar]:
        """Return the jars that are missing or refused."""
        self._look()
        return self._missing

    def _look(self) -> None:
        if not self._missing:
            return
        with self._lock:
            self._missing = tuple(jar for jar in self._missing if not self._load(jar))

    def _load(self, jar: WebJar) -> bool:
        """Read the files of *jar* and return whether that was possible."""
        keys = {path: _key_of(path) for path in self._places(jar.package)}
        new = {path: key for path, key in keys.items() if key is not None and key not in self._wrong}
        lookup = look_up(jar, new)
        for path, reason in lookup.refused.items():
            log.warning(
                "The page does without %s: %s is not used, because %s.",
                ", ".join(sorted(jar.files)),
                path,
                reason,
                extra={"action": "library_refused", "package": jar.package},
            )
        if lookup.content is None:
            self._wrong.update(new.values())
            return False
        self._files = {**self._files, **jar.unpack(lookup.content)}
        return True


def _key_of(path: Path) -> tuple[Path, int, int] | None:
    """Return what changes with the content of a file, or None if there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return path, stat.st_mtime_ns, stat.st_size
