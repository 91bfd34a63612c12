"""Where browsers find the page: the settings `sql-gateway.ui.*`."""

from __future__ import annotations

import pytest

from mt_core.app.settings import page_base, page_url
from mt_core.config import load_config
from mt_core.errors import ConfigError

KEY = "sql-gateway.ui.url"


def test_the_page_is_below_ui_at_the_address_of_the_request() -> None:
    config = load_config()

    assert (page_url(config), page_base(config)) == ("", "/ui")


@pytest.mark.parametrize(
    ("text", "url", "base"),
    [
        ("https://data.example.com", "https://data.example.com/ui", "/ui"),
        ("https://data.example.com/freshtable/", "https://data.example.com/freshtable/ui", "/freshtable/ui"),
        ("http://localhost:8083", "http://localhost:8083/ui", "/ui"),
        ("http://[::1]:8083/a/b", "http://[::1]:8083/a/b/ui", "/a/b/ui"),
        # As browsers write it in the header Origin.
        ("HTTPS://Data.Example.com:443/A", "https://data.example.com/A/ui", "/A/ui"),
        ("http://[::1]:80", "http://[::1]/ui", "/ui"),
        ("http://data.example.com:8080", "http://data.example.com:8080/ui", "/ui"),
    ],
)
def test_behind_a_proxy_the_page_is_at_the_address_that_browsers_call(text: str, url: str, base: str) -> None:
    config = load_config(overrides=[f"{KEY}={text}"])

    assert (page_url(config), page_base(config)) == (url, base)


@pytest.mark.parametrize("setting", ["sql-gateway.ui.enabled=false", "sql-gateway.embedded=true"])
def test_a_gateway_that_serves_no_page_has_no_address_of_it(setting: str) -> None:
    config = load_config(overrides=[setting, f"{KEY}=https://data.example.com"])

    assert (page_url(config), page_base(config)) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "data.example.com",
        "/freshtable",
        "ftp://data.example.com",
        "https://user:secret@data.example.com",
        "https://data.example.com/?a=b",
        "https://data.example.com/#a",
        "https://data.example.com//ui",
        "https://data.example.com/a b",
    ],
)
def test_an_address_that_is_none_is_refused_with_an_example(text: str) -> None:
    config = load_config(overrides=[f"{KEY}={text}"])

    with pytest.raises(ConfigError, match=r"such as https://data\.example\.com/freshtable") as caught:
        page_url(config)

    assert caught.value.facts["key"] == KEY
