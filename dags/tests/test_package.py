from __future__ import annotations

import ast
import json
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest

import freshtable_airflow
from freshtable_airflow.plugin import FreshtablePlugin
from freshtable_airflow.provider import get_provider_info

MODULES = sorted(Path(freshtable_airflow.__file__).parent.glob("*.py"))


def test_the_provider_keeps_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())

    validator = jsonschema.validators.validator_for(schema)(schema)

    assert [error.message for error in validator.iter_errors(get_provider_info())] == []


def test_what_the_provider_names_is_there() -> None:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()

    assert "freshtable-airflow" in manager.providers
    assert (
        import_module_item(get_provider_info()["connection-types"][0]["hook-class-name"]).conn_type
        == "freshtable"
    )
    assert "freshtable_airflow.link.GatewayRunLink" in manager.extra_links_class_names


def test_the_plug_in_is_found_by_its_entry_point() -> None:
    (found,) = (each for each in entry_points(group="airflow.plugins") if each.name == "freshtable")

    assert found.load() is FreshtablePlugin


def import_module_item(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_every_module_is_small_and_says_what_it_is(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]

    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= 400
    assert [each.name for each in functions if (each.end_lineno or 0) - each.lineno >= 40] == []
