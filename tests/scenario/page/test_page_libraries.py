"""The page loads the libraries that the gateway has from the gateway, and does without the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from mt_core.gateway.application import build_app
from tests.support.gateway.statements import Gateway

HTMX = b"var htmx = {};"


class Libraries:
    """Libraries in memory, to which a test adds files."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def names(self) -> frozenset[str]:
        return frozenset(self.files)

    def file(self, name: str) -> bytes | None:
        return self.files.get(name)


@pytest.fixture
def libraries() -> Libraries:
    return Libraries({})


@pytest.fixture
def browser(gateway: Gateway, switch: Any, libraries: Libraries) -> Any:
    switch.app = build_app(replace(gateway.services, libraries=libraries))
    return gateway.http


def loaded(page: httpx.Response) -> list[str]:
    """Return the addresses of the libraries that a page loads."""
    assert page.status_code == 200
    return re.findall(r'(?:src|href)="([^"]*/libraries/[^"]*)"', page.text)


def test_the_page_loads_a_library_from_the_gateway_and_the_browser_may_keep_it(
    browser: httpx.Client, libraries: Libraries
) -> None:
    libraries.files["htmx.js"] = HTMX

    [address] = loaded(browser.get("/ui/"))
    script = browser.get(address)

    assert (script.status_code, script.content) == (200, HTMX)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["x-content-type-options"] == "nosniff"


def test_the_page_reads_without_libraries_and_loads_them_once_the_gateway_has_them(
    browser: httpx.Client, libraries: Libraries
) -> None:
    before, missing = loaded(browser.get("/ui/")), browser.get("/ui/libraries/0/htmx.js")
    libraries.files["htmx.js"] = HTMX
    after = loaded(browser.get("/ui/"))

    assert (before, missing.status_code) == ([], 404)
    assert [address.rpartition("/")[2] for address in after] == ["htmx.js"]


def test_the_sql_page_loads_the_editor_with_its_styles(browser: httpx.Client, libraries: Libraries) -> None:
    names = ["codemirror.js", "codemirror.css", "codemirror-sql.js", "codemirror-hint.js"]
    libraries.files.update({name: name.encode() for name in names})

    addresses = loaded(browser.get("/ui/sql"))

    assert {address.rpartition("/")[2] for address in addresses} == set(names)
    assert {browser.get(address).text for address in addresses} == set(names)
