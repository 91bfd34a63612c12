"""Modules that users bring: two versions of one name meet in a process, and import each other
as they are written.
"""

from __future__ import annotations

import subprocess
import sys
import traceback
from datetime import date
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, Optional

import pytest
from pyspark import SparkFiles, cloudpickle
from pyspark.sql import udf

from mt_core.errors import DefinitionInvalid
from mt_core.model.function import (
    CreatedFunction,
    FileKind,
    FunctionFile,
    FunctionLanguage,
    PythonDeclaration,
    PythonForm,
)
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.python_code import ModuleReader, SentFunction
from mt_core.spark.functions.python_types import spark_type
from tests.support.function_code import module_archive

DECLARED = PythonDeclaration(python="3.11", form=PythonForm.VALUE, name="f")


class World:
    """Files of users, those that a gateway keeps of them, and this process as the worker that gets these."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, FunctionFiles(folder / "kept")
        self.remote: dict[str, str] = {}
        self.fetched: list[str] = []

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def kept(self, *files: FunctionFile) -> CreatedFunction:
        function = CreatedFunction(name="f", language=FunctionLanguage.PYTHON, body="users.f", files=files)
        return self.files.copied(function, self.fetch)

    def fetch(self, uri: str, target: Path, what: str) -> None:
        self.fetched.append(what)
        target.write_text(self.remote[uri])

    def code(self, body: str, *paths: Path) -> Any:
        """Return what a function with *body* is on a worker, in the files as they are now."""
        return called(self.function(body, *paths))

    def read(self, body: str, *paths: Path) -> PythonDeclaration:
        """Return what a function with *body* declares in the files, as they are now."""
        return ModuleReader({}).declared(self.function(body, *paths), self.files, {})

    def function(self, body: str, *paths: Path) -> CreatedFunction:
        files = tuple(
            FunctionFile(kind=FileKind.FILE if path.suffix == ".py" else FileKind.ARCHIVE, uri=str(path))
            for path in paths
        )
        function = CreatedFunction(name="f", language=FunctionLanguage.PYTHON, body=body, files=files)
        return self.files.copied(function, self.fetch)


def called(function: CreatedFunction) -> Any:
    """Return what a worker calls."""
    load, there = SentFunction(function, DECLARED).__reduce__()
    return load(*there)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "kept"))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    # What a worker changes comes back.
    monkeypatch.setattr(udf, "_parse_datatype_string", vars(udf)["_parse_datatype_string"])
    return World(tmp_path)


def test_two_versions_of_a_module_answer_each_for_itself(world: World) -> None:
    path = world.write("words.py", "def word() -> str:\n    return 'one'\n")
    first = world.code("words.word", path)
    path.write_text("def word() -> str:\n    return 'two'\n")

    second = world.code("words.word", path)

    assert (first(), second()) == ("one", "two")
    assert world.code("words.word", path) is second


def test_a_traceback_shows_the_lines_of_the_version_that_failed(world: World) -> None:
    path = world.write("words.py", "def fail() -> None:\n    raise ValueError('one')\n")
    first = world.code("words.fail", path)
    path.write_text("def fail() -> None:\n    raise KeyError('two')\n")
    second = world.code("words.fail", path)

    lines = []
    for function in (first, second):
        with pytest.raises((ValueError, KeyError)) as raised:
            function()
        [_, frame] = traceback.extract_tb(raised.tb)
        lines.append((frame.filename.replace(str(path), "PATH"), frame.lineno, frame.line))

    version = sha256(path.read_bytes()).hexdigest()[:8]
    assert lines == [
        ("PATH", 2, "raise ValueError('one')"),
        (f"PATH (version {version})", 2, "raise KeyError('two')"),
    ]


def test_modules_of_an_archive_import_each_other_in_every_way_also_while_a_function_runs(
    world: World,
) -> None:
    one, other = (
        module_archive(world.folder / "one.zip", "!"),
        module_archive(world.folder / "other.whl", "?"),
    )

    shout, ask = world.code("shop.words.shout", one), world.code("shop.words.shout", other)

    assert (shout("a"), ask("a")) == ("a!", "a?")


def test_a_file_imports_another_file_and_an_archive_of_the_same_function(world: World) -> None:
    archive = module_archive(world.folder / "one.zip", "!")
    world.write("more.py", "import json\n\ndef end() -> str:\n    return json.dumps(1)\n")
    main = world.write(
        "main.py", "from more import end\nfrom shop.words import shout\n\ndef f():\n    return shout(end())\n"
    )

    assert world.code("main.f", main, world.folder / "more.py", archive)() == "1!"


def test_a_module_is_compiled_with_no_feature_of_python_that_it_does_not_import(world: World) -> None:
    plain = world.write("plain.py", "def f(n: int) -> int:\n    return n\n")
    postponed = world.write(
        "postponed.py", "from __future__ import annotations\ndef f(n: int) -> int:\n    return n\n"
    )

    functions = world.code("plain.f", plain), world.code("postponed.f", postponed)

    assert [each.__annotations__ for each in functions] == [
        {"n": int, "return": int},
        {"n": "int", "return": "int"},
    ]


def test_a_module_of_the_gateway_is_not_hidden_by_one_of_a_user(world: World) -> None:
    path = world.write("json.py", "def dumps() -> str:\n    return 'mine'\n")

    mine = world.code("json.dumps", path)

    assert (mine(), world.code("json.dumps")(1)) == ("mine", "1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "import nothing_of_that_name",
            "ModuleNotFoundError: No module named 'nothing_of_that_name' (PATH, line 1).",
        ),
        ("def f(:\n    pass", "SyntaxError: invalid syntax (PATH, line 1)."),
        ("import sys\nsys.exit(3)", "SystemExit: 3 (PATH, line 2)."),
        ("class Own(Exception): pass\nraise Own('no')", "Own: no (PATH, line 2)."),
        ("x = 1\ny = x / 0", "ZeroDivisionError: division by zero (PATH, line 2)."),
    ],
)
def test_a_module_that_cannot_be_loaded_is_refused_with_its_error_and_its_line(
    world: World, text: str, reason: str
) -> None:
    path = world.write("users.py", text)

    with pytest.raises(DefinitionInvalid) as raised:
        world.read("users.f", path)

    assert (
        raised.value.message
        == f"Function f: module users cannot be loaded: {reason.replace('PATH', str(path))}"
    )


def test_a_file_that_has_no_such_module_is_refused_with_what_it_has(world: World) -> None:
    archive = module_archive(world.folder / "one.zip", "!")
    not_zip = world.write("not.zip", "no archive")

    with pytest.raises(
        DefinitionInvalid, match=r"module shop\.other cannot be loaded: .*No module named 'shop\.other'"
    ):
        world.read("shop.other.f", archive)
    with pytest.raises(DefinitionInvalid, match=r"module shop\.words has no f; it has shout"):
        world.read("shop.words.f", archive)
    with pytest.raises(DefinitionInvalid, match=r"an ARCHIVE is a zip file or a wheel"):
        world.read("shop.words.f", not_zip)


@pytest.mark.parametrize("body", ["shop.words.shout", "one.shout"])
def test_an_archive_that_is_named_as_a_file_is_refused_with_what_to_write(world: World, body: str) -> None:
    archive = module_archive(world.folder / "one.zip", "!")
    file = FunctionFile(kind=FileKind.FILE, uri=str(archive))
    function = CreatedFunction(name="f", language=FunctionLanguage.PYTHON, body=body, files=(file,))

    with pytest.raises(DefinitionInvalid) as raised:
        ModuleReader({}).declared(world.files.copied(function, world.fetch), world.files, {})

    assert raised.value.message == f"Function f: {archive} is an archive; write USING ARCHIVE '{archive}'."


def test_a_worker_without_freshtable_gets_the_function_from_the_files_that_spark_sends(world: World) -> None:
    archive = module_archive(world.folder / "one.zip", "!")
    kept = world.files.copied(
        CreatedFunction(
            name="f",
            language=FunctionLanguage.PYTHON,
            body="shop.words.shout",
            files=(FunctionFile(kind=FileKind.ARCHIVE, uri=str(archive)),),
        ),
        world.fetch,
    )
    command = cloudpickle.dumps(SentFunction(kept, DECLARED))  # type: ignore[no-untyped-call]
    worker = (
        "import pickle, sys; sys.modules['mt_core'] = None\nfrom pyspark import SparkFiles; "
        "SparkFiles._root_directory, SparkFiles._is_running_on_worker = sys.argv[1], True\n"
        "print(pickle.loads(sys.stdin.buffer.read())('a'))"
    )

    answer = subprocess.run(
        [sys.executable, "-c", worker, str(world.folder / "kept")],
        input=command,
        capture_output=True,
        check=False,
    )

    assert (answer.stdout, answer.stderr) == (b"a!\n", b"")


def test_a_copy_that_fails_leaves_no_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.write("users.py", "")
    monkeypatch.setattr("shutil.copyfile", _full_disk)

    with pytest.raises(OSError, match="No space left"):
        world.code("users.f", path)

    assert list((world.folder / "kept").iterdir()) == []


def test_a_file_with_a_content_is_that_copy_also_after_the_file_has_changed(world: World) -> None:
    path = world.write("users.py", "one")
    (file,) = world.kept(FunctionFile(kind=FileKind.FILE, uri=str(path))).files
    path.write_text("two")

    again = world.kept(file).files
    path.unlink()

    assert (again, world.kept(file).files) == ((file,), (file,))
    assert Path(world.files.path(file)).read_text() == "one"


def test_a_remote_file_is_fetched_once_and_its_name_is_the_module(world: World) -> None:
    uri = "s3://bucket/code/users.py?region=eu-central-1"
    world.remote[uri] = "def f() -> int:\n    return 1\n"

    kept = world.kept(FunctionFile(kind=FileKind.FILE, uri=uri))
    world.remote[uri] = "changed"

    assert world.kept(*kept.files) == kept
    assert (kept.files[0].uri, called(kept)()) == (uri, 1)
    assert world.fetched == ["Function f"]


def test_nothing_is_kept_of_a_remote_file_that_could_not_be_fetched(world: World) -> None:
    with pytest.raises(KeyError):
        world.kept(FunctionFile(kind=FileKind.FILE, uri="s3://bucket/users.py"))

    assert list((world.folder / "kept").iterdir()) == []


def test_a_content_that_is_no_hash_names_no_file_outside_of_the_kept_ones(world: World) -> None:
    path = world.write("users.py", "one")
    world.write("other.py", "not for a function")
    world.kept(FunctionFile(kind=FileKind.FILE, uri=str(path)))

    with pytest.raises(
        DefinitionInvalid, match=r"users\.py does not have the content \.\./other that the function needs"
    ):
        world.kept(FunctionFile(kind=FileKind.FILE, uri=str(path), content="../other"))


def test_a_file_with_another_content_than_the_statement_names_is_refused(world: World) -> None:
    path = world.write("users.py", "one")

    with pytest.raises(
        DefinitionInvalid, match=r"users\.py does not have the content 1111 that the function needs"
    ):
        world.kept(FunctionFile(kind=FileKind.FILE, uri=str(path), content="1111"))

    assert list((world.folder / "kept").iterdir()) == []


def _full_disk(source: Path, target: Path) -> None:
    target.write_bytes(b"half")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, "BIGINT"),
        (date, "DATE"),
        (Decimal | None, "DECIMAL(38,18)"),
        (Optional[str], "STRING"),  # noqa: UP045
        (list[dict[str, float | None]], "ARRAY<MAP<STRING, DOUBLE>>"),
        (int | str, None),
        (list, None),
        (list[object], None),
        (None, None),
        ([int], None),
        (dict[str, [int]], None),  # type: ignore[valid-type]
    ],
)
def test_a_type_hint_is_a_type_of_spark_or_none(hint: Any, expected: str | None) -> None:
    assert spark_type(hint) == expected
