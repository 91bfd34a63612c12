"""The public names, as docs/build.py lists them: programs may rely on these, and on no others."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import EnumMeta
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import typer

from mt_core.base import protocol
from mt_core.cli import app
from mt_core.config import SETTINGS
from mt_core.metrics.families import FAMILIES, Family
from mt_core.sql.kinds import KINDS

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 130
# Packages stand for their modules.
PUBLIC = (
    "mt_core.errors",
    "mt_core.clock",
    "mt_core.workflow",
    "mt_core.testing",
    "mt_core.state",
    "mt_core.client.dbapi",
    "mt_core.client.dialect",
    "mt_core.client.exceptions",
    "mt_core.client.http",
    "mt_core.client.pages",
)
# The project's own definitions: a base class from elsewhere has its documentation elsewhere.
OURS = ("mt_core.", "scheduler_plugins.")


def public_names_page(documents: Mapping[str, Mapping[str, Any]], scheduler_options: Iterable[str]) -> str:
    """Return the page without its notice, from the OpenAPI documents by version and the options
    of bundled schedulers.
    """
    modules = "".join(_module(module) for module in _modules())
    return f"""# Public names

These names stay as they are, or the changelog says so: what a program may import, settings, endpoints,
metrics, statements, commands and entry points. Everything else may change at any time.

## Imports

A class is listed with the parameters of its constructor, where it has one of its own, and with its public
members. The parameters of a dataclass are attributes too. Members of a base class that is listed, or another
library's, are not repeated. A parameter with `=` has a default.

{modules}A scheduler may also import `mt_core.model`, for the types of the facts that it receives.

## Settings

[Settings](settings.md) says what each means, and its environment variable. Keys that begin with `spark.` go
to Spark, keys that begin with `catalog.options.` to Iceberg.

{_bullets([*(setting.key for setting in SETTINGS), *scheduler_options])}
## REST

[REST](rest.md) says what each does, [openapi/](openapi) what it takes and answers. The paths of version 4
also exist without `/v4`.

| endpoint | versions |
|---|---|
{"".join(_endpoints(documents))}
{_wrapped("Headers beside Flink's: " + ", ".join(sorted(_headers())) + ".")}

## Metrics

[Metrics](metrics.md) says what each means. `GET /metrics` returns them. New labels and metrics may be added.

{_bullets(map(_metric, FAMILIES))}
## SQL statements

[SQL](sql/README.md) has the grammar. A statement begins with the words of one row; any other text goes to
Spark. The type is the one of FLIP-91's draft; types without words are those of statements that Spark reads.
Some statements are refused, with the way out.

| type | statements |
|---|---|
{"".join(_statements())}
## Commands

{"".join(_commands())}
## Entry points

{"".join(_entry_points())}
A distribution offers a workflow scheduler in the group `mt_core`, under its `workflow-scheduler.type`: the
module has the hook `mt_workflow_schedulers()` ([how to](how-to/write-a-scheduler.md)).
"""


def _metric(family: Family) -> str:
    return f"{family.name}{{{', '.join(family.labels)}}}" if family.labels else family.name


def _bullets(texts: Iterable[str]) -> str:
    return "".join(f"- `{text}`\n" for text in texts)


# ---------------------------------------------------------------------------------------------------- imports


def _modules() -> Iterator[ModuleType]:
    for name in PUBLIC:
        module = importlib.import_module(name)
        inner = [each.name for each in pkgutil.iter_modules(getattr(module, "__path__", []), f"{name}.")]
        yield from (
            map(importlib.import_module, inner) if inner and not hasattr(module, "__all__") else [module]
        )


def _module(module: ModuleType) -> str:
    entries = (_wrapped("- " + _entry(name, getattr(module, name))) + "\n" for name in _names(module))
    return f"### `{module.__name__}`\n\n{''.join(entries)}\n"


def _names(module: ModuleType) -> list[str]:
    """Return the names that a module defines, in its order; those of `__all__` if it has one."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    names: list[str] = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [
                each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
            ]
    hidden = {"log", *(name for name, value in vars(module).items() if isinstance(value, TypeVar))}
    return [each for each in names if not each.startswith("_") and each not in hidden]


def _entry(name: str, value: Any) -> str:
    if inspect.isfunction(value):
        return f"`{name}{_parameters(value)}`"
    if not inspect.isclass(value) or not value.__module__.startswith(OURS):
        return f"`{name}`"
    own = inspect.isfunction(vars(value).get("__init__"))
    bases = ", ".join(f"`{each.__name__}`" for each in value.__bases__ if each in _listed())
    members = ", ".join(f"`{member}`" for member in _members(value))
    text = f"`{name}{_parameters(value.__init__) if own else ''}`" + (
        f", subclass of {bases}" if bases else ""
    )
    return f"{text}: {members}" if members else text


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


@functools.cache
def _listed() -> frozenset[type]:
    """Return the classes of this project that are on the page themselves."""
    values = (getattr(module, name) for module in _modules() for name in _names(module))
    return frozenset(
        value for value in values if inspect.isclass(value) and value.__module__.startswith(OURS)
    )


def _parameters(function: Any) -> str:
    """Return the names of a function's parameters in parentheses, without *self*;
    `=` after those that have a default.
    """
    texts, keyword_only = list[str](), False
    for each in inspect.signature(function).parameters.values():
        if each.name in {"self", "cls"}:
            continue
        if each.kind is each.KEYWORD_ONLY and not keyword_only:
            texts += ["*"] if not any(text.startswith("*") for text in texts) else []
            keyword_only = True
        stars: dict[Any, str] = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}
        texts.append(f"{stars.get(each.kind, '')}{each.name}{'=' if each.default is not each.empty else ''}")
    return f"({', '.join(texts)})"


def _members(cls: type) -> list[str]:
    """Return the public members of a class in the order of their names, without those of base classes
    that users know.
    """
    inherited: set[str] = set()
    members: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base is cls or (base.__module__.startswith(OURS) and base not in _listed()):
            members |= _own(base)
        else:
            inherited |= _own(base).keys()
    fields = vars(cls).get("__dataclass_fields__", {})
    return [
        f"{name}{members[name]}" for name in sorted(members.keys() - inherited - fields.keys(), key=str.lower)
    ]


def _own(cls: type) -> dict[str, str]:
    """Return the public members that a class itself declares, with the parameters of methods."""
    members = dict.fromkeys(cls.__members__, "") if isinstance(cls, EnumMeta) else {}
    for name in [*inspect.get_annotations(cls), *vars(cls), *_attributes(cls)]:
        if not name.startswith("_"):
            value = vars(cls).get(name)
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            members.setdefault(name, _parameters(function) if inspect.isfunction(function) else "")
    return members


def _attributes(cls: type) -> list[str]:
    """Return the attributes that a constructor sets."""
    constructor = vars(cls).get("__init__")
    if not inspect.isfunction(constructor) or hasattr(cls, "__dataclass_fields__"):
        return []
    tree = ast.parse(textwrap.dedent(inspect.getsource(constructor)))
    return [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    ]


# ----------------------------------------------------------------------------------------------- REST and SQL


def _endpoints(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    versions: dict[str, list[str]] = {}
    for name, document in documents.items():
        for path, methods in document["paths"].items():
            for method in methods:
                versions.setdefault(f"{method.upper()} {path.removeprefix(f'/{name}')}", []).append(name)
    for endpoint in sorted(versions, key=lambda each: each.split(" ")[::-1]):
        yield f"| `{endpoint}` | {', '.join(each.rpartition('-')[2] for each in versions[endpoint])} |\n"


def _headers() -> set[str]:
    return {f"`{value}`" for name, value in vars(protocol).items() if name.endswith("_HEADER")}


def _statements() -> Iterator[str]:
    words: dict[str, dict[str, None]] = {}
    for kind in KINDS:
        further = (
            each
            for each in kind.readers
            if not any(f"{phrase} ".startswith(f"{each} ") for phrase in kind.phrases)
        )
        words.setdefault(kind.type, {}).update(dict.fromkeys([*kind.phrases, *further]))
    for type_, texts in words.items():
        yield f"| `{type_}` | {', '.join(f'`{text}`' for text in texts)} |\n"


# ---------------------------------------------------------------------------------- commands and entry points


def _commands() -> Iterator[str]:
    command = typer.main.get_command(app)
    yield _command("freshtable", command)
    for name, each in getattr(command, "commands", {}).items():
        yield _command(f"freshtable {name}", each)
        for below, other in getattr(each, "commands", {}).items():
            yield _command(f"freshtable {name} {below}", other)


def _command(name: str, command: Any) -> str:
    options = []
    for each in command.params:
        if each.name != "help":
            variable = f", or the variable `{each.envvar}`" if each.envvar else ""
            options.append(", ".join(f"`{text}`" for text in each.opts) + variable)
    return _wrapped(f"- `{name}`: {'; '.join(options)}") + "\n"


def _entry_points() -> Iterator[str]:
    for folder in (ROOT, ROOT / "dags"):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
        for group, names in groups.items():
            for name, target in names.items():
                yield f"- `{project['name']}`, group `{group}`: `{name} = {target}`\n"
