"""Every import of a module is a declared dependency: of the base, or of the extras for its part of the
package.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = {"mt_core", "scheduler_plugins"}
# The longest prefix wins. Modules without an entry work with the base only.
EXTRAS = {
    "mt_core.app": ("gateway",),
    "mt_core.gateway": ("gateway",),
    "mt_core.metrics": ("metrics",),
    "mt_core.registry": ("gateway",),
    "mt_core.spark": ("gateway",),
    "mt_core.sessions": (),
    "mt_core.demo": ("gateway", "demo"),
    "mt_core.client.arrow": ("client",),
    "mt_core.client.arrow_rows": ("client",),
    "mt_core.client.dbapi": ("client",),
    "mt_core.client.dialect": ("client",),
    "mt_core.client.http": ("client",),
    "mt_core.client.reader": ("client",),
    "mt_core.terminal.output.columnar_file": ("client",),
    "mt_core.setup.checks": ("gateway",),
    "mt_core.setup.doctor": ("gateway",),
    "mt_core.state": ("state",),
    "mt_core.testing": ("testing",),
    "scheduler_plugins.airflow": ("gateway",),
}


def project(path: str) -> dict[str, list[str]]:
    """Return the requirements of a pyproject.toml by extra; the base has the name ''."""
    facts = tomllib.loads((ROOT / path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": facts["dependencies"], **facts.get("optional-dependencies", {})}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in requirements}


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level packages that a module imports, including deferred and type-only imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


@cache
def cached_owners() -> Mapping[str, list[str]]:
    """Return the distributions of each installed top-level package; cached, because it is slow."""
    return packages_distributions()


def needed(module: str) -> tuple[str, ...]:
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((EXTRAS[name] for name in names if name in EXTRAS), ())


@pytest.mark.parametrize("package", sorted(OURS))
def test_every_import_is_a_declared_dependency_of_the_extras_that_its_module_needs(package: str) -> None:
    declared, owners = project("."), cached_owners()
    undeclared = []

    for path in sorted((ROOT / package).rglob("*.py")):
        module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        present = set[str]().union(*(distributions(declared[extra]) for extra in ("", *needed(module))))
        for name in sorted(set(imported(path)) - OURS - set(sys.stdlib_module_names)):
            if not present & {normal(each) for each in owners.get(name, [name])}:
                undeclared.append(f"{module} imports {name}")

    assert undeclared == []


@pytest.mark.parametrize("path", [".", "dags"])
def test_every_dependency_has_a_lower_bound(path: str) -> None:
    own = "freshtable["
    unbounded = [
        each
        for group in project(path).values()
        for each in group
        if ">=" not in each and not each.startswith(own)
    ]

    assert unbounded == []


def test_reading_rows_has_numpy_wherever_pyarrow_is_asked_for_it() -> None:
    declared = project(".")

    assert "numpy" in distributions(declared["gateway"])


def test_the_client_brings_pandas() -> None:
    assert {"pandas", "pyarrow", "sqlalchemy"} <= distributions(project(".")["client"])
