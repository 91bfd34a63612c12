"""Imports a function's files as modules of a separate package, in the module reader and on workers.

The code of this module is pickled by value and sent to workers, which need not have Freshtable installed.
It must import only PySpark and Python's standard library.
"""

from __future__ import annotations

import builtins
import importlib
import linecache
import sys
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import udf
from pyspark.sql.types import DataType, NullType

Part = tuple[str, str, str]
"""A file: its module name, which is empty for an archive, its path, and its name in tracebacks."""

_Source = tuple[bytes, str, bool]


def load_module(root: str, parts: Sequence[Part], module: str) -> ModuleType:
    """Import a module of *parts*; *root* is a package name that is unique to these files and their content.

    Raises any exception that the code of the module raises.
    """
    if root not in sys.modules:
        sys.meta_path.insert(0, UserModules(root, _sources(parts)))
        importlib.import_module(root)
    return importlib.import_module(f"{root}.{module}")


def load_on_worker(root: str, parts: Sequence[Part], body: str) -> Any:
    """Return the function or class *body*, as `module.name`, on a worker.

    It is loaded from the files that Spark has sent, or from an installed module if there are no files.
    """
    # PySpark's decorators parse types in the driver's JVM, which workers do not have. Workers do not need the
    # types.
    vars(udf)["_parse_datatype_string"] = _any_type
    sent = [(module, str(SparkFiles.get(path)), shown) for module, path, shown in parts]
    module, _, name = body.rpartition(".")
    loaded = load_module(root, sent, module) if sent else importlib.import_module(module)
    return bare(getattr(loaded, name))


def _any_type(text: str) -> DataType:
    return NullType()


def bare(target: Any) -> Any:
    """Return the function or class inside a PySpark object, or any other object unchanged."""
    return target.func if hasattr(target, "evalType") else target


class UserModules(MetaPathFinder, Loader):
    """Finds and loads the modules of a function's files in the package *root*.

    Two versions of a module can therefore be loaded at the same time. Imports between these modules are
    redirected to the package.
    """

    def __init__(self, root: str, sources: Mapping[str, _Source]) -> None:
        self._root = root
        self._sources = {"": (b"", root, True), **sources}
        self._tops = {name.partition(".")[0] for name in sources}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != self._root and not fullname.startswith(f"{self._root}."):
            return None
        source = self._sources.get(fullname[len(self._root) + 1 :])
        return None if source is None else ModuleSpec(fullname, self, origin=source[1], is_package=source[2])

    def exec_module(self, module: ModuleType) -> None:
        code, shown, _ = self._sources[module.__name__[len(self._root) + 1 :]]
        module.__file__ = shown
        # Import statements look up __import__ in the builtins of their module, even when functions run later.
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        # dont_inherit: do not apply the __future__ imports of this module.
        exec(compile(code, _traced(shown, code), "exec", dont_inherit=True), vars(module))

    def _import(
        self,
        name: str,
        names: Any = None,
        local: Any = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if level or top not in self._tops:
            return builtins.__import__(name, names, local, fromlist or (), level)
        module = builtins.__import__(f"{self._root}.{name}", names, local, fromlist or ("__name__",), 0)
        return module if fromlist else sys.modules[f"{self._root}.{top}"]


def _traced(shown: str, code: bytes) -> str:
    """Return the file name of *code* in tracebacks and cache its lines under that name.

    The first version of a file that a process loads has the plain name. Other versions have a suffix, so
    that tracebacks never show lines of another version.
    """
    lines = code.decode(errors="replace").splitlines(keepends=True)
    if linecache.cache.get(shown, (0, None, lines, shown))[2:3] != (lines,):
        shown = f"{shown} (version {sha256(code).hexdigest()[:8]})"
    linecache.cache[shown] = (len(code), None, lines, shown)
    return shown


def _sources(parts: Sequence[Part]) -> Mapping[str, _Source]:
    sources: dict[str, _Source] = {}
    for module, path, shown in parts:
        if module:
            sources[module] = (Path(path).read_bytes(), shown, False)
        else:
            sources.update(_archived(path, shown))
    return sources


def _archived(path: str, shown: str) -> Mapping[str, _Source]:
    """Return the modules of an archive. Each folder with modules is a package, even without __init__.py."""
    sources: dict[str, _Source] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if not member.endswith(".py"):
                continue
            *folders, last = member.removesuffix(".py").split("/")
            is_package = last == "__init__"
            name = ".".join(folders if is_package else [*folders, last])
            if name:
                sources[name] = (archive.read(member), f"{shown}/{member}", is_package)
    for name in list(sources):
        while name := name.rpartition(".")[0]:
            sources.setdefault(name, (b"", shown, True))
    return sources
