"""Python code of functions: what a module declares, read in a child process, and how workers get it.

The gateway never imports a module of users. It asks a process of its own kind, `module_reader`, with a time
limit; what that one answers is data, which this module checks. Workers get the name of the object and load it
themselves from the files.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from pyspark import cloudpickle

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.function import CreatedFunction, FileKind, FunctionFile, PythonDeclaration
from mt_core.spark.driver.process import OURS
from mt_core.spark.functions import module_reader, user_modules
from mt_core.spark.functions.function_files import FunctionFiles, kept_name
from mt_core.spark.functions.module_reader import python_version
from mt_core.spark.functions.user_modules import Part, load_on_worker

LIMIT_S = 30.0
_POLL_S = 0.05
_CHUNK, _LONGEST = 1 << 16, 1 << 20
_REMEMBERED = 100
_END = b"\n"

Check = Callable[[], object]
"""Raises the error that ends the work of a statement, if it was cancelled."""

cloudpickle.register_pickle_by_value(user_modules)  # type: ignore[no-untyped-call]


def no_check() -> None:
    """Never end the work."""


class SentFunction:
    """What the gateway has in place of a function, or of a class with rows:
    a worker loads that from the files it is sent.
    """

    def __init__(self, function: CreatedFunction, declared: PythonDeclaration) -> None:
        parts = [_part(each, kept_name(each)) for each in function.files]
        self._there = (_root(function), parts, function.body)
        self.__name__ = declared.name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(f"{self.__name__} is called by workers alone.")

    def __reduce__(self) -> Any:
        return load_on_worker, self._there


class ModuleReader:
    """Reads what modules of users declare, each in a child process with *environ* without the gateway's own
    settings. Any thread.

    A module is loaded once for all functions of its files; one that is installed may change,
    and is loaded for each.
    """

    def __init__(self, environ: Mapping[str, str], limit_s: float = LIMIT_S) -> None:
        self._environ = {name: text for name, text in environ.items() if not name.startswith(OURS)}
        self._limit_s, self._lock = limit_s, threading.Lock()
        self._known: dict[tuple[str, str], Mapping[str, PythonDeclaration]] = {}

    def declared(
        self,
        function: CreatedFunction,
        files: FunctionFiles,
        settings: Mapping[str, str],
        check: Check = no_check,
    ) -> PythonDeclaration:
        """Return what the object of *function* declares, with those of Spark's *settings*
        that decorators read.

        *check* is called again and again meanwhile. Raises DefinitionInvalid for code that is not there,
        or that cannot be loaded in time; Unsupported for a type that is a class.
        """
        module, _, name = function.body.rpartition(".")
        if not module:
            raise DefinitionInvalid(
                f"Function {function.name}: AS '{function.body}' names no module; write 'module.function'."
            )
        _check_kinds(function, files)
        _check_names(function, module)
        place = (f"{_root(function)} {json.dumps(dict(settings), sort_keys=True)}", module)
        with self._lock:
            known = self._known.get(place, {}).get(name)
        if known is not None:
            return known
        found = self._read(function, _question(function, files, settings), check)
        if function.files:
            with self._lock:
                self._known[place] = found
                while len(self._known) > _REMEMBERED:
                    del self._known[next(iter(self._known))]
        return found[name]

    def _read(
        self, function: CreatedFunction, question: Mapping[str, Any], check: Check
    ) -> Mapping[str, PythonDeclaration]:
        said = self._answer(function, json.dumps(question), check)
        name = function.body.rpartition(".")[2]
        try:
            answer = json.loads(said)
            if "error" in answer:
                error = Unsupported if answer.get("code") == Unsupported.code else DefinitionInvalid
                raise error(str(answer["error"]))
            found = {str(key): PythonDeclaration.from_json(each) for key, each in answer["found"].items()}
            if found[name].python != python_version():
                raise ValueError(found[name].python)
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            raise DefinitionInvalid(
                f"Function {function.name}: module {_module(function)} "
                "spoils the answer of the process that loads it; a module "
                "must leave the file descriptors and the modules of that process alone."
            ) from cause
        return found

    def _answer(self, function: CreatedFunction, question: str, check: Check) -> bytes:
        """Return the line that the child process answers, and leave no process behind."""
        came, goes = os.pipe()
        try:
            with tempfile.TemporaryFile() as asked:
                asked.write(question.encode())
                asked.seek(0)
                command = [sys.executable, "-P", "-m", module_reader.__name__, str(goes), str(os.getpid())]
                process = subprocess.Popen(
                    command,
                    stdin=asked,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    # A module that is installed for the gateway is for its child, too.
                    env={
                        **self._environ,
                        "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path),
                    },
                    pass_fds=(goes,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(came)
            raise
        finally:
            os.close(goes)
        try:
            said = self._said(function, process, came, check)
        finally:
            os.close(came)
            # Not yet waited for, it still has its number, as have those that it started.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if not said.endswith(_END):
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise DefinitionInvalid(
                f"Function {function.name}: module {_module(function)} ends the process that loads it "
                f"({how}); a module must only define what it has."
            )
        return said

    def _said(
        self, function: CreatedFunction, process: subprocess.Popen[bytes], came: int, check: Check
    ) -> bytes:
        """Return what the child process says, up to the end of its line, or of itself."""
        said, until = b"", time.monotonic() + self._limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(came, selectors.EVENT_READ)
            while not said.endswith(_END):
                check()
                if time.monotonic() > until or len(said) > _LONGEST:
                    raise DefinitionInvalid(
                        f"Function {function.name}: module {_module(function)} "
                        f"has not been loaded after {self._limit_s:.0f} s; a "
                        "module must not wait, nor work for long, when it is imported."
                    )
                if selector.select(_POLL_S):
                    part = os.read(came, _CHUNK)
                    if not part:
                        break
                    said += part
                elif _has_ended(process):
                    # Those that it started may still have the pipe open.
                    break
        return said


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended; where the system can do it, it keeps its number until it is waited for."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _question(
    function: CreatedFunction, files: FunctionFiles, settings: Mapping[str, str]
) -> Mapping[str, Any]:
    return {
        "function": function.name,
        "body": function.body,
        "root": _root(function),
        "parts": [_part(each, files.path(each)) for each in function.files],
        "settings": dict(settings),
    }


def is_current(declared: PythonDeclaration | None) -> bool:
    """Whether *declared* is of a module that the Python of this process, and of its workers,
    loads in the same way.
    """
    return declared is not None and declared.python == python_version()


def _module(function: CreatedFunction) -> str:
    return function.body.rpartition(".")[0]


def _root(function: CreatedFunction) -> str:
    """Return the package of the function's files: equal code has one, also if several functions use it."""
    parts = [(*_part(each, ""), each.content) for each in function.files]
    return f"freshtable_code_{sha256(repr(parts).encode()).hexdigest()[:32]}"


def _part(file: FunctionFile, path: str) -> Part:
    return (file.stem if file.kind is FileKind.FILE else "", path, file.uri)


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
            f"Function {function.name}: file {function.files[0].uri} is the module {stems[0]}, "
            f"not {module}; write AS '{stems[0]}.{function.body.rpartition('.')[2]}'."
        )
