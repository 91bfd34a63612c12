"""Modules of users are read in a process of their own, which they can spoil as they like."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mt_core.errors import Canceled, DefinitionInvalid, Unsupported
from mt_core.model.function import (
    Analyze,
    CreatedFunction,
    FileKind,
    FunctionFile,
    FunctionLanguage,
    PythonDeclaration,
    PythonForm,
    PythonParameter,
)
from mt_core.spark.functions import python_code
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.module_reader import python_version
from mt_core.spark.functions.python_code import Check, ModuleReader, no_check
from tests.support.function_code import PYTHON
from tests.support.gateway.own_process import wait_until

SETTINGS = {
    "spark.sql.execution.pythonUDF.arrow.enabled": "false",
    "spark.sql.execution.pythonUDTF.arrow.enabled": "false",
}
VALUE = "\n\ndef f(x: int) -> int:\n    return x\n"


# A gateway at CREATE FUNCTION.
_GATEWAY = """
import sys
from pathlib import Path
from mt_core.model.function import CreatedFunction, FileKind, FunctionFile, FunctionLanguage
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.python_code import ModuleReader

folder, uri, content = sys.argv[1:]
file = FunctionFile(kind=FileKind.FILE, uri=uri, content=content)
function = CreatedFunction(name="own", language=FunctionLanguage.PYTHON, body="users.f", files=(file,))
settings = {"spark.sql.execution.pythonUDF.arrow.enabled": "false"}
ModuleReader({}, 600.0).declared(function, FunctionFiles(Path(folder)), settings)
"""


def _have_ended(pids: Iterable[int]) -> bool:
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(processes, timeout=20)
    return all(each.status() == psutil.STATUS_ZOMBIE for each in alive)


class Modules:
    """A reader of modules and the folder with the copies of their files."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None, limit_s: float = 60.0) -> None:
        self.folder, self.files = folder, FunctionFiles(folder / "functions")
        self.reader = ModuleReader(environ or {}, limit_s)

    def function(self, text: str, name: str = "f") -> CreatedFunction:
        path = self.folder / "users.py"
        path.write_text(text)
        file = FunctionFile(kind=FileKind.FILE, uri=str(path))
        function = CreatedFunction(
            name="own", language=FunctionLanguage.PYTHON, body=f"users.{name}", files=(file,)
        )
        return self.files.copied(function, lambda *_: None)

    def read(self, text: str, name: str = "f", check: Check = no_check) -> PythonDeclaration:
        return self.reader.declared(self.function(text, name), self.files, SETTINGS, check)

    def refused(self, text: str) -> str:
        with pytest.raises(DefinitionInvalid) as refused:
            self.read(text)
        return refused.value.message


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(tmp_path)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("import os\nos._exit(3)", "exit code 3"),
        ("import os\nos._exit(0)", "exit code 0"),
        ("import ctypes\nctypes.string_at(0)", "signal SIGSEGV"),
        ("import os\nos.kill(os.getpid(), 9)", "signal SIGKILL"),
    ],
)
def test_a_module_that_ends_its_process_is_refused_with_how_it_did(
    modules: Modules, text: str, how: str
) -> None:
    assert modules.refused(text) == (
        f"Function own: module users ends the process that loads it ({how}); "
        "a module must contain only definitions."
    )


def test_an_answer_that_a_process_writes_right_before_its_end_is_read(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once_it_has(process: subprocess.Popen[bytes]) -> bool:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return True

    monkeypatch.setattr(python_code, "_POLL_S", 0)
    monkeypatch.setattr(python_code, "_has_ended", once_it_has)

    assert modules.read(VALUE).name == "f"


def test_a_module_that_never_ends_its_import_is_refused_after_the_limit(tmp_path: Path) -> None:
    modules = Modules(tmp_path, limit_s=0.1)

    assert modules.refused("while True:\n    pass") == (
        "Function own: module users was not loaded within 0 s; "
        "a module must not wait or compute for long when it is imported."
    )


def test_an_error_with_a_huge_text_is_shown_from_its_beginning(modules: Modules) -> None:
    message = modules.refused("raise ValueError('wide ' * 1_000_000)")

    assert "ValueError: wide wide" in message
    assert len(message) == 10_000


def test_a_module_whose_declarations_are_huge_is_refused_with_the_limit(modules: Modules) -> None:
    fields = "', '.join(f'c{number} int' for number in range(200_000))"
    text = f"from pyspark.sql.functions import udf\nf = udf(lambda: None, 'struct<' + {fields} + '>')"

    assert modules.refused(text) == (
        "Function own: the declarations of module users take more than 1 MiB; "
        "shorten their types, or split the module."
    )


def test_a_cancelled_statement_ends_the_process_and_those_that_it_started(
    modules: Modules, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    text = (
        "import os, subprocess, sys, time\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(begun)!r} + '.part', 'w').write(f'{{os.getpid()}} {{other.pid}}')\n"
        f"os.rename({str(begun)!r} + '.part', {str(begun)!r})\n"
        "time.sleep(600)\n"
    )

    def check() -> None:
        if begun.exists():
            raise Canceled("The statement was cancelled.")

    with pytest.raises(Canceled):
        modules.read(text, check=check)

    assert _have_ended(map(int, begun.read_text().split()))


def test_a_killed_gateway_leaves_no_process_and_nothing_stored(modules: Modules, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    function = modules.function(
        f"import os, time\nopen({str(begun)!r} + '.part', 'w').write(str(os.getpid()))\n"
        f"os.rename({str(begun)!r} + '.part', {str(begun)!r})\ntime.sleep(600)\n"
    )
    path, content = function.files[0].uri, function.files[0].content
    gateway = subprocess.Popen([sys.executable, "-c", _GATEWAY, str(tmp_path / "functions"), path, content])
    wait_until(begun.exists, "the module was not loaded")

    gateway.kill()
    gateway.wait()

    assert _have_ended([int(begun.read_text())])
    # As the next start does.
    FunctionFiles(tmp_path / "functions").remove_unused([])
    assert list((tmp_path / "functions").iterdir()) == []


def test_a_module_sees_the_environment_without_the_gateway_s_own_settings(tmp_path: Path) -> None:
    modules = Modules(tmp_path, {"FRESHTABLE_SQL_GATEWAY_SECURITY_TOKENS": "planted", "KEPT": "1"})
    text = "import os\nassert 'KEPT' in os.environ\nassert 'planted' not in str(os.environ)\n"

    declared = modules.read(text + VALUE)

    assert declared == PythonDeclaration(
        python=python_version(),
        form=PythonForm.VALUE,
        name="f",
        eval_type=100,
        is_deterministic=True,
        returns="BIGINT",
        signature="(x: int) -> int",
        parameters=(PythonParameter(name="x", kind="POSITIONAL_OR_KEYWORD", type="BIGINT"),),
    )


def test_the_process_that_asks_never_has_the_module(modules: Modules) -> None:
    before, finders = set(sys.modules), list(sys.meta_path)

    modules.read(VALUE)

    assert not [name for name in set(sys.modules) - before if name.startswith(("freshtable_code_", "users"))]
    assert sys.meta_path == finders


@pytest.mark.parametrize(
    "text",
    [
        # It prints, reads its input, and would hang at its end.
        "import atexit, sys, time\nprint('a' * 100_000)\nsys.stdin.read()\natexit.register(time.sleep, 600)",
        # It leaves a process behind that has all its descriptors.
        "import os, time\nif os.fork() == 0:\n    time.sleep(600)",
    ],
)
def test_what_a_module_does_besides_changes_no_answer(modules: Modules, text: str) -> None:
    assert modules.read(text + VALUE).returns == "BIGINT"


@pytest.mark.parametrize(
    "answer", ["no json", "[]", '{"found": {"g": {}}}', '{"found": {"f": {"python": 3}}}']
)
def test_an_answer_that_a_module_forges_is_data_that_is_checked(modules: Modules, answer: str) -> None:
    text = f"import os, sys\nos.write(int(sys.argv[1]), {answer!r}.encode() + b'\\n')\nos._exit(0)\n"

    assert "module users corrupts the response" in modules.refused(text)


def test_functions_of_one_file_are_read_once(modules: Modules, tmp_path: Path) -> None:
    loads = tmp_path / "loads"
    text = (
        f"open({str(loads)!r}, 'a').write('x')\n{VALUE}\n\nclass Rows:\n    def eval(self):\n"
        "        yield (1,)\n"
    )

    found = modules.read(text), modules.read(text, "Rows")

    assert ([each.form for each in found], loads.read_text()) == ([PythonForm.VALUE, PythonForm.ROWS], "x")
    modules.read(f"{text}# Changed.\n")
    assert loads.read_text() == "xx"


def test_objects_of_pyspark_declare_their_kind_and_type_without_a_jvm(modules: Modules) -> None:
    text = PYTHON.format(factor=3)
    names = (
        "marked",
        "doubled",
        "middle",
        "tripled",
        "Letters",
        "Plain",
        "Named",
        "several",
        "scaled",
        "joined",
    )
    found = {name: modules.read(text, name) for name in names}

    assert {
        name: (each.form.value, each.is_made, each.eval_type, each.returns) for name, each in found.items()
    } == {
        "marked": ("VALUE", True, 100, "string"),
        "doubled": ("VALUE", True, 200, "bigint"),
        "middle": ("VALUE", True, 202, "double"),
        "tripled": ("VALUE", True, 250, "bigint"),
        "Letters": ("ROWS", True, 300, "n: int, word: string"),
        "Plain": ("ROWS", False, 0, ""),
        "Named": ("ROWS", False, 0, ""),
        "several": ("GENERATOR", False, 100, "BIGINT"),
        "scaled": ("VALUE", False, 100, "BIGINT"),
        "joined": ("VALUE", False, 100, "ARRAY<STRING>"),
    }
    assert (found["Named"].analyze, found["Plain"].analyze) == (Analyze.STATIC, Analyze.NONE)
    assert [(each.name, each.has_default, each.type) for each in found["joined"].parameters or ()] == [
        ("x", False, "DOUBLE"),
        ("end", True, "STRING"),
        ("more", False, "STRING"),
    ]
    for each in found.values():
        assert PythonDeclaration.from_json(each.to_json()) == each


def test_a_type_of_spark_is_declared_as_it_is_and_one_that_is_a_class_is_refused(modules: Modules) -> None:
    text = (
        "from pyspark.sql.functions import udf\nfrom pyspark.sql.types import ArrayType, IntegerType, "
        "UserDefinedType\n\n\nclass Vector(UserDefinedType):\n    @classmethod\n    def sqlType(cls):\n"
        "        return IntegerType()\n\n    @classmethod\n    def module(cls):\n        return 'users'\n"
        "\n\n@udf(ArrayType(IntegerType(), containsNull=False))\ndef f(x):\n    return [x]\n\n\n"
        "@udf(ArrayType(Vector()))\ndef g(x):\n    return [x]\n"
    )

    assert modules.read(text).returns_json == '{"containsNull":false,"elementType":"integer","type":"array"}'
    with pytest.raises(Unsupported, match=r"users\.g returns .*, a type that is a class in Python"):
        modules.read(text, "g")


def test_an_installed_module_is_read_for_each_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "installed"
    package.mkdir()
    module = package / "only_in_a_child.py"
    module.write_text("def f() -> int:\n    return 1\n")
    monkeypatch.syspath_prepend(str(package))
    modules = Modules(tmp_path)
    function = CreatedFunction(name="own", language=FunctionLanguage.PYTHON, body="only_in_a_child.f")

    first = modules.reader.declared(function, modules.files, SETTINGS)
    module.write_text("def f() -> str:\n    return ''\n")
    again = modules.reader.declared(replace(function, name="other"), modules.files, SETTINGS)

    assert (first.returns, again.returns) == ("BIGINT", "STRING")
    assert "only_in_a_child" not in sys.modules


def test_readings_of_several_sessions_do_not_wait_for_each_other(modules: Modules, tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", threading.Event()
    hanging = modules.function(f"open({str(begun)!r}, 'w').close()\nimport time\ntime.sleep(600)\n")

    def check() -> None:
        if ended.is_set():
            raise Canceled("The statement was cancelled.")

    def hang() -> None:
        with pytest.raises(Canceled):
            modules.reader.declared(hanging, modules.files, SETTINGS, check)

    thread = threading.Thread(target=hang)
    thread.start()
    try:
        other = modules.read(VALUE)
    finally:
        ended.set()
        thread.join()

    assert other.returns == "BIGINT"
