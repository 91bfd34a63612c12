"""Python code of functions: what a function's `module.name` is on the driver, and how workers get it."""

from __future__ import annotations

import importlib
import threading
import traceback
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from mt_core.errors import DefinitionInvalid
from mt_core.model.function import CreatedFunction, FileKind, FunctionFile
from mt_core.spark.functions import user_modules
from mt_core.spark.functions.function_files import FunctionFiles, kept_name
from mt_core.spark.functions.user_modules import Part, bare, load_module, load_on_worker

# Files of Python's own import, and ours, which stand in every traceback of a module.
_NOT_OF_USERS = ("<frozen ", str(Path(__file__).parent), importlib.__file__)
_loading = threading.Lock()

cloudpickle.register_pickle_by_value(user_modules)  # type: ignore[no-untyped-call]


class SentFunction:
    """A function, or a class with rows, that a worker loads from the files that Spark sends it."""

    def __init__(self, target: Any, root: str, parts: list[Part], body: str) -> None:
        self.target, self._there = bare(target), (root, parts, body)
        self.__name__ = getattr(self.target, "__name__", body)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.target(*arguments, **named)

    def __reduce__(self) -> Any:
        return load_on_worker, self._there


def code_of(function: CreatedFunction, files: FunctionFiles) -> Any:
    """Return the object that *function* names; raises DefinitionInvalid for code that is not there or cannot be loaded."""
    module, _, name = function.body.rpartition(".")
    if not module:
        raise DefinitionInvalid(
            f"Function {function.name}: AS '{function.body}' names no module; write 'module.function'."
        )
    _check_kinds(function, files)
    _check_names(function, module)
    try:
        with _loading:
            if function.files:
                parts = [_part(each, files.path(each)) for each in function.files]
                found = load_module(_root(function), parts, module)
            else:
                found = importlib.import_module(module)
    except zipfile.BadZipFile as cause:
        raise DefinitionInvalid(
            f"Function {function.name}: an ARCHIVE is a zip file or a wheel with modules of Python; {_uris(function)} is none."
        ) from cause
    except (Exception, SystemExit) as cause:
        reason = _failure(cause).replace(f"{_root(function)}.", "")
        raise DefinitionInvalid(f"Function {function.name}: module {module} cannot be loaded: {reason}.") from cause
    target = getattr(found, name, None)
    if target is None:
        there = sorted(key for key, each in vars(found).items() if _is_of(found, each) and key[:1] != "_")
        raise DefinitionInvalid(
            f"Function {function.name}: module {module} has no {name}; it has {', '.join(there[:10]) or 'no functions'}."
        )
    return target


def sent_code(function: CreatedFunction, target: Any) -> Any:
    """Return what Spark sends to workers in place of *target*; an installed module is there already."""
    if not function.files:
        return bare(target)
    parts = [_part(each, kept_name(each)) for each in function.files]
    return SentFunction(target, _root(function), parts, function.body)


def _root(function: CreatedFunction) -> str:
    """Return the package of the function's files: equal code has one, also if several functions use it."""
    parts = [(*_part(each, ""), each.content) for each in function.files]
    return f"freshtable_code_{sha256(repr(parts).encode()).hexdigest()[:32]}"


def _part(file: FunctionFile, path: str) -> Part:
    return (file.stem if file.kind is FileKind.FILE else "", path, file.uri)


def _uris(function: CreatedFunction) -> str:
    return ", ".join(each.uri for each in function.files if each.kind is FileKind.ARCHIVE)


def _check_kinds(function: CreatedFunction, files: FunctionFiles) -> None:
    """Raise DefinitionInvalid for an archive that stands as a file of one module."""
    for each in function.files:
        if each.kind is FileKind.FILE and zipfile.is_zipfile(files.path(each)):
            raise DefinitionInvalid(
                f"Function {function.name}: {each.uri} is an archive; write USING ARCHIVE '{each.uri}'."
            )


def _check_names(function: CreatedFunction, module: str) -> None:
    """Raise DefinitionInvalid if none of the files can have the module."""
    stems = [each.stem for each in function.files if each.kind is FileKind.FILE]
    if stems and module not in stems and len(stems) == len(function.files):
        raise DefinitionInvalid(
            f"Function {function.name}: file {function.files[0].uri} is the module {stems[0]}, not {module}; write "
            f"AS '{stems[0]}.{function.body.rpartition('.')[2]}'."
        )


def _is_of(module: Any, target: Any) -> bool:
    return callable(target) and getattr(bare(target), "__module__", "") == module.__name__


def _failure(cause: BaseException) -> str:
    """Return what went wrong in a user's code, and where."""
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"SyntaxError: {cause.msg} ({cause.filename}, line {cause.lineno})"
    text = f"{type(cause).__name__}: {cause}"
    places = [each for each in traceback.extract_tb(cause.__traceback__) if not each.filename.startswith(_NOT_OF_USERS)]
    return f"{text} ({places[-1].filename}, line {places[-1].lineno})" if places else text
