"""Python code of functions: reads declarations in a child process, and ships the code to workers.

The gateway never imports users' modules, because they could crash it, block it or change its own modules.
It runs `module_reader` as a child process with a time limit, and treats the response as untrusted data,
because a module can write anything to the file descriptor of the response.

PySpark usually pickles the function into each query. Here, a query contains a `SentFunction`, which is
pickled as the names of the files and of the function, and the worker loads them itself. The modules of a
function are in a package of their own (`_root`), named by a hash of the files. Equal code is therefore loaded
once per process, and two versions of a module can be loaded together.
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
from mt_core.spark.functions.function_files import FunctionFiles, copy_name
from mt_core.spark.functions.module_reader import python_version
from mt_core.spark.functions.user_modules import Part, load_on_worker

LIMIT_S = 30.0
_POLL_S = 0.05
_CHUNK, _LONGEST = 1 << 16, 1 << 20
_CACHE_SIZE = 100
_END = b"\n"

Check = Callable[[], object]
"""Raises an error if the statement was cancelled."""

cloudpickle.register_pickle_by_value(user_modules)  # type: ignore[no-untyped-call]


def no_check() -> None:
    """A Check that never raises."""


class SentFunction:
    """The gateway's placeholder for a user's function or table function class.

    When it is unpickled on a worker, it becomes the real object, loaded from the files sent to the worker.
    """

    def __init__(self, function: CreatedFunction, declared: PythonDeclaration) -> None:
        parts = [_part(each, copy_name(each)) for each in function.files]
        self._there = (_root(function), parts, function.body)
        self.__name__ = declared.name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(f"{self.__name__} is called only by workers.")

    def __reduce__(self) -> Any:
        return load_on_worker, self._there


class ModuleReader:
    """Reads the declarations of users' modules in child processes. Thread-safe.

    The child processes get *environ* without the gateway's own settings. Declarations from a function's
    files are cached. Those from an installed module are not cached, because it may change.
    """

    def __init__(self, environ: Mapping[str, str], limit_s: float = LIMIT_S) -> None:
        self._environ = {name: text for name, text in environ.items() if not name.startswith(OURS)}
        self._limit_s, self._lock = limit_s, threading.Lock()
        self._cache: dict[tuple[str, str], Mapping[str, PythonDeclaration]] = {}

    def declared(
        self,
        function: CreatedFunction,
        files: FunctionFiles,
        settings: Mapping[str, str],
        check: Check = no_check,
    ) -> PythonDeclaration:
        """Return the declaration of *function*; *settings* are the Spark settings that decorators read.

        *check* is called repeatedly. Raises DefinitionInvalid if the code is missing or cannot be loaded in
        time, and Unsupported for a user-defined type.
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
            cached = self._cache.get(place, {}).get(name)
        if cached is not None:
            return cached
        declarations = self._read(function, _question(function, files, settings), check)
        if function.files:
            with self._lock:
                self._cache[place] = declarations
                while len(self._cache) > _CACHE_SIZE:
                    del self._cache[next(iter(self._cache))]
        return declarations[name]

    def _read(
        self, function: CreatedFunction, question: Mapping[str, Any], check: Check
    ) -> Mapping[str, PythonDeclaration]:
        response = self._answer(function, json.dumps(question), check)
        name = function.body.rpartition(".")[2]
        try:
            answer = json.loads(response)
            if "error" in answer:
                error = Unsupported if answer.get("code") == Unsupported.code else DefinitionInvalid
                raise error(str(answer["error"]))
            declarations = {
                str(key): PythonDeclaration.from_json(each) for key, each in answer["found"].items()
            }
            if declarations[name].python != python_version():
                raise ValueError(declarations[name].python)
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            raise DefinitionInvalid(
                f"Function {function.name}: module {_module(function)} "
                "corrupts the response of the process that loads it; a module "
                "must leave the file descriptors and the modules of that process alone."
            ) from cause
        return declarations

    def _answer(self, function: CreatedFunction, question: str, check: Check) -> bytes:
        """Run the child process and return its response line. The process has ended when this returns."""
        reading_end, writing_end = os.pipe()
        try:
            with tempfile.TemporaryFile() as request:
                request.write(question.encode())
                request.seek(0)
                reader = module_reader.__name__
                command = [sys.executable, "-P", "-m", reader, str(writing_end), str(os.getpid())]
                process = subprocess.Popen(
                    command,
                    stdin=request,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    # The child must find the modules that are installed for the gateway.
                    env={
                        **self._environ,
                        "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path),
                    },
                    pass_fds=(writing_end,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(reading_end)
            raise
        finally:
            os.close(writing_end)
        try:
            response = self._response(function, process, reading_end, check)
        finally:
            os.close(reading_end)
            # Kill the group before `wait`, which releases the process id for other processes.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if not response.endswith(_END):
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise DefinitionInvalid(
                f"Function {function.name}: module {_module(function)} ends the process that loads it "
                f"({how}); a module must contain only definitions."
            )
        return response

    def _response(
        self, function: CreatedFunction, process: subprocess.Popen[bytes], reading_end: int, check: Check
    ) -> bytes:
        """Return the output of the child process up to the end of its first line, or until it exits."""
        response, until = b"", time.monotonic() + self._limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(reading_end, selectors.EVENT_READ)
            while not response.endswith(_END):
                check()
                if len(response) > _LONGEST:
                    raise DefinitionInvalid(
                        f"Function {function.name}: the declarations of module {_module(function)} take more "
                        f"than {_LONGEST >> 20} MiB; shorten their types, or split the module."
                    )
                if time.monotonic() > until:
                    raise DefinitionInvalid(
                        f"Function {function.name}: module {_module(function)} "
                        f"was not loaded within {self._limit_s:.0f} s; a "
                        "module must not wait or compute for long when it is imported."
                    )
                # Asked before the pipe is read: what a process writes, it writes before it ends.
                has_ended = _has_ended(process)
                if selector.select(0 if has_ended else _POLL_S):
                    part = os.read(reading_end, _CHUNK)
                    if not part:
                        break
                    response += part
                elif has_ended:
                    # There is no end of file if a grandchild still has the pipe open.
                    break
        return response


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has exited, if possible without releasing its process id."""
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
    """Return whether *declared* was read with the Python version of this process and its workers."""
    return declared is not None and declared.python == python_version()


def _module(function: CreatedFunction) -> str:
    return function.body.rpartition(".")[0]


def _root(function: CreatedFunction) -> str:
    """Return the package name for the function's files. Functions with equal files share it."""
    parts = [(*_part(each, ""), each.content) for each in function.files]
    return f"freshtable_code_{sha256(repr(parts).encode()).hexdigest()[:32]}"


def _part(file: FunctionFile, path: str) -> Part:
    return (file.stem if file.kind is FileKind.FILE else "", path, file.uri)


def _check_kinds(function: CreatedFunction, files: FunctionFiles) -> None:
    """Raise DefinitionInvalid for an archive that is declared as FILE."""
    for each in function.files:
        if each.kind is FileKind.FILE and zipfile.is_zipfile(files.path(each)):
            raise DefinitionInvalid(
                f"Function {function.name}: {each.uri} is an archive; write USING ARCHIVE '{each.uri}'."
            )


def _check_names(function: CreatedFunction, module: str) -> None:
    """Raise DefinitionInvalid if no file can contain *module*."""
    stems = [each.stem for each in function.files if each.kind is FileKind.FILE]
    if stems and module not in stems and len(stems) == len(function.files):
        raise DefinitionInvalid(
            f"Function {function.name}: file {function.files[0].uri} is the module {stems[0]}, "
            f"not {module}; write AS '{stems[0]}.{function.body.rpartition('.')[2]}'."
        )
