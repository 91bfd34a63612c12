"""The written pages say what the code does: endpoints, plug-in seam, statements, commands, links."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import jsonschema_rs
import pytest

from docs.build import ROOT, openapi_documents
from mt_core.base.tokens import split_statements
from mt_core.sql import catalog, functions, plans
from mt_core.sql.parser import parse
from mt_core.sql.statements import Statement
from mt_core.workflow.operations import CreatePeriodicRefreshWorkflow
from mt_core.workflow.scheduler import (
    SchedulerContext,
    SchedulerHooks,
    WorkflowDescription,
    WorkflowScheduler,
    WorkflowState,
)
from tests.support.schemas import without_others

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "changelog").glob("*.md")])
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def examples(page: Path, language: str) -> Iterator[str]:
    for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
        if found[1] == language:
            yield found[2]


# ------------------------------------------------------------------------------------------------------- REST


@cache
def endpoints() -> dict[str, str]:
    """Return METHOD /path of every endpoint with the versions that have it, such as 1-4.

    Those of the API of facts have their whole path, and version 1.
    """
    found: dict[str, list[str]] = {}
    for name, document in openapi_documents().items():
        for path, methods in document["paths"].items():
            for method in methods:
                endpoint = f"{method.upper()} {path.removeprefix(f'/{name}')}"
                found.setdefault(endpoint, []).append(name.rpartition("v")[2])
    return {each: "-".join(dict.fromkeys((versions[0], versions[-1]))) for each, versions in found.items()}


def test_there_are_endpoints_to_look_for() -> None:
    assert endpoints()["GET /info"] == "1-4"
    assert len(endpoints()) > 20


def test_every_endpoint_is_in_the_rest_page_with_its_versions_and_no_other() -> None:
    rows = re.findall(
        r"^\| `((?:GET|POST|DELETE|PUT|PATCH) /[^`]*)` \| ([^ ]*) \|", text_of("rest.md"), re.MULTILINE
    )

    assert dict(rows) == endpoints()


def test_every_example_of_a_fact_has_the_members_of_its_document() -> None:
    facts = text_of("rest.md").partition("\n## Facts\n")[2].partition("\n## ")[0]
    pairs = re.findall(r"^```bash\n(.*?)```\n\n```json\n(.*?)^```", facts, re.MULTILINE | re.DOTALL)
    paths = openapi_documents()["freshtable-v1"]["paths"]
    shown = set[str]()

    for command, answer in pairs:
        address = command.partition("$GATEWAY")[2].partition("?")[0].strip().strip('"')
        path = next(each for each in paths if re.fullmatch(re.sub(r"{\w+}", "[^/]+", each), address))
        content = paths[path]["get"]["responses"]["200"]["content"]["application/json"]
        jsonschema_rs.validate(without_others(content["schema"]), json.loads(answer))
        shown.add(path)

    assert shown == set(paths)


# --------------------------------------------------------------------------------------------------- plug-ins


def test_every_method_of_a_scheduler_is_in_the_plug_in_page() -> None:
    page = text_of("how-to/write-a-scheduler.md")

    for name in sorted(WorkflowScheduler.__abstractmethods__):
        parameters = [
            each for each in inspect.signature(getattr(WorkflowScheduler, name)).parameters if each != "self"
        ]
        assert f"| `{name}({', '.join(parameters)})` |" in page


@pytest.mark.parametrize(
    "facts", [SchedulerContext, CreatePeriodicRefreshWorkflow], ids=lambda facts: facts.__name__
)
def test_every_fact_that_a_scheduler_is_given_is_in_the_plug_in_page(facts: type) -> None:
    page = text_of("how-to/write-a-scheduler.md")

    missing = [each.name for each in fields(facts) if f"`{each.name}`" not in page]

    assert missing == []


def test_every_hook_with_its_arguments_is_in_the_plug_in_page() -> None:
    page = text_of("how-to/write-a-scheduler.md")
    hooks = {name: hook for name, hook in vars(SchedulerHooks).items() if inspect.isfunction(hook)}

    for name, hook in hooks.items():
        parameters = [each for each in inspect.signature(hook).parameters if each != "self"]
        assert f"{name}({', '.join(parameters)})" in page


def test_every_answer_about_a_workflow_is_in_the_plug_in_page() -> None:
    page = text_of("how-to/write-a-scheduler.md")

    for state in WorkflowState:
        assert state in page
    for each in fields(WorkflowDescription):
        assert f"{each.name}=" in page or f"`{each.name}`" in page


def test_the_scheduler_of_the_plug_in_page_keeps_the_seam() -> None:
    scope: dict[str, object] = {}

    code = next(examples(DOCS / "how-to" / "write-a-scheduler.md", "python"))
    exec(compile(code, "write-a-scheduler.md", "exec"), scope)

    (scheduler,) = scope["mt_workflow_schedulers"]()
    assert scheduler.identifier == "sundial"
    assert scheduler.__abstractmethods__ == frozenset()


# -------------------------------------------------------------------------------------------------------- SQL


SQL_PAGES = sorted(f"sql/{each.name}" for each in (DOCS / "sql").glob("*.md"))


def statements_of(*pages: str) -> list[str]:
    return [
        text.text
        for page in pages
        for block in examples(DOCS / page, "sql")
        for text in split_statements(block)
    ]


def kinds_of_ours() -> set[type]:
    """Return the facts of all statements that the parser reads."""
    found = (*vars(catalog).values(), *vars(plans).values(), *vars(functions).values())
    facts = {each for each in found if isinstance(each, type) and is_dataclass(each)}
    return {*Statement.__args__, *(each for each in facts if issubclass(each, catalog.CatalogStatement))}


@pytest.mark.parametrize("statement", statements_of(*SQL_PAGES))
def test_every_statement_of_the_sql_pages_is_one_of_ours(statement: str) -> None:
    assert type(parse(statement)) in kinds_of_ours()


@pytest.mark.parametrize("page", ["quickstart.md", "concepts.md", "how-to/explain-a-refresh.md"])
def test_every_statement_of_the_other_pages_can_be_read(page: str) -> None:
    statements = statements_of(page)

    assert statements
    for statement in statements:
        parse(statement)


def test_every_statement_of_ours_has_an_example_in_the_sql_pages() -> None:
    assert {type(parse(statement)) for statement in statements_of(*SQL_PAGES)} == kinds_of_ours()


def test_the_index_of_the_sql_pages_names_them_all() -> None:
    named = set(_LINK.findall(text_of("sql/README.md")))

    assert {Path(each).name for each in SQL_PAGES} - {"README.md"} <= named


# --------------------------------------------------------------------------------------- README, links, words


@pytest.mark.parametrize("command", ["make demo", "make test", "make check", "make test-slow", ".ci/run"])
def test_the_readme_explains_the_commands(command: str) -> None:
    assert f"`{command}`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    named = set(re.findall(r"`make ([a-z-]+)", readme))

    assert {"demo", "test", "check", "test-slow"} <= named
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    broken = [
        link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not leads_somewhere(page, link)
    ]

    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    if "://" in link:
        return True
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors_of(target))


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = (link.partition("#")[0] for link in _LINK.findall(page.read_text(encoding="utf-8")))
        targets = ((page.parent / link).resolve() for link in links if link and "://" not in link)
        waiting += [
            each for each in targets if each.suffix == ".md" and each.exists() and each not in reached
        ]

    assert set(DOCS.rglob("*.md")) - reached == set()


def test_the_files_that_a_change_touches_are_there() -> None:
    paths = re.findall(r"`([a-z_]+/[\w./-]+|pyproject\.toml)`", text_of("where-do-i-add.md"))

    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []
