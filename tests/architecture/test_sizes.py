"""Limits on modules: their size, their docstrings, and no hidden inputs or swallowed errors in the core."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.architecture.long_functions import long_functions

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mt_core", "scheduler_plugins", "tests/support")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CORE = ("model", "sql", "workflow", "tables", "sessions")
MOST_ARGUMENTS = 6
MOST_FILES = 20
# Folders with more files, with the reason.
LARGE_FOLDERS = {
    "mt_core/model": "a module for each kind of fact, which its readers find by its name",
}
# The linter's numeric limits, by rule.
LIMITS = {
    "E501": ("pycodestyle", "max-line-length", 110),
    "C901": ("mccabe", "max-complexity", 10),
    "PLR0913": ("pylint", "max-args", MOST_ARGUMENTS),
}
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc"}
# Threads that must survive any error of their work: statements, requests, ticks, refreshes.
MAY_CATCH_ALL = {
    "mt_core/base/background.py",
    "mt_core/sessions/executor.py",
    "mt_core/gateway/http/errors.py",
    "scheduler_plugins/memory/delivery.py",
}
READS_THE_ENVIRONMENT = {
    "mt_core/cli.py",
    "mt_core/spark/driver/jars.py",
    "mt_core/spark/driver/operator_jar.py",
    "tests/support/gateway/forked.py",
    "tests/support/gateway/own_process.py",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
LOOKED_AT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ExceptHandler, ast.Call, ast.Attribute)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a module that the tests below inspect."""
    return tuple(node for node in ast.walk(tree_of(path)) if isinstance(node, LOOKED_AT))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions() -> Iterator[tuple[str, Function]]:
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, Function):
                yield f"{name_of(path)}:{node.lineno} {node.name}", node


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 50


def test_every_module_says_what_it_is() -> None:
    silent = [name_of(path) for path in MODULES if not ast.get_docstring(tree_of(path))]

    assert silent == []


def test_no_function_takes_many_arguments() -> None:
    counts = {name: arguments_of(each) for name, each in functions()}

    assert {name: count for name, count in counts.items() if count > MOST_ARGUMENTS} == {}


def arguments_of(function: Function) -> int:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([each for each in arguments if each.arg not in ("self", "cls")])


def test_the_linter_has_our_limits_in_all_packages() -> None:
    root, dags = linter(ROOT / "pyproject.toml"), linter(ROOT / "dags" / "pyproject.toml")
    lint = root["lint"]

    assert all(rule.startswith(tuple(lint["select"])) for rule in ("E501", *LIMITS))
    assert {rule: lint[tool][key] for rule, (tool, key, _) in LIMITS.items()} == {
        rule: limit for rule, (_, _, limit) in LIMITS.items()
    }
    assert dags["extend"] == "../pyproject.toml"
    assert dags["lint"].keys() == {"per-file-ignores"}
    assert [rule for rule in exempted(root) | exempted(dags) if rule.startswith(("E", "C", "PL"))] == [
        "EM101",
        "EM102",
    ]


def linter(settings: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tomllib.loads(settings.read_text(encoding="utf-8"))["tool"]["ruff"]
    return found


def exempted(settings: Mapping[str, Any]) -> dict[str, None]:
    """Return the linter rules that are disabled somewhere."""
    per_file = settings["lint"].get("per-file-ignores", {}).values()
    return dict.fromkeys(
        [*settings["lint"].get("ignore", ()), *(rule for rules in per_file for rule in rules)]
    )


def test_a_folder_has_at_most_20_files_side_by_side() -> None:
    counts = Counter(name_of(path.parent) for path in MODULES if name_of(path).startswith("mt_core/"))

    assert {folder for folder, count in counts.items() if count > MOST_FILES} == LARGE_FOLDERS.keys()


def test_functions_over_50_lines_are_listed_longest_first(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    bodies = {"short": 49, "long": 50, "longer": 60}
    module.write_text("".join(f"def {name}():\n" + "    pass\n" * lines for name, lines in bodies.items()))

    assert [(lines, place.rpartition(" ")[2]) for lines, place in long_functions([module])] == [
        (61, "longer"),
        (51, "long"),
    ]


def test_no_module_is_a_drawer_for_anything() -> None:
    drawers = [
        name_of(path) for path in MODULES if DRAWERS & set(path.relative_to(ROOT).with_suffix("").parts)
    ]

    assert drawers == []


def test_errors_of_any_kind_are_caught_in_a_few_places_only() -> None:
    catching = {
        name_of(path)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler) and catches_all(node)
    }

    assert catching - MAY_CATCH_ALL == set()


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler swallows all errors; cleaning up and raising again does not count."""
    if handler.type is not None and ast.unparse(handler.type) not in ("Exception", "BaseException"):
        return False
    return not any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))


def test_the_core_asks_nobody_for_the_time_and_opens_nothing() -> None:
    forbidden = {"datetime.now", "datetime.utcnow", "date.today", "time.time", "time.sleep", "open", "print"}
    core = [
        path
        for path in MODULES
        if path.relative_to(ROOT).parts[:2] in {("mt_core", package) for package in CORE}
    ]

    called = {
        f"{name_of(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path in core
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    }

    assert called == set()


def test_the_environment_is_read_at_the_edge_only() -> None:
    reading = {
        name_of(path)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr in ("environ", "getenv")
        and ast.unparse(node.value) == "os"
    }

    assert reading - READS_THE_ENVIRONMENT == set()
