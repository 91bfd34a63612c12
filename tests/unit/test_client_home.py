from __future__ import annotations

import json
from pathlib import Path

import pytest

from mt_core.client.home import token_in, url_in


def note(home: Path, url: object) -> None:
    """Let a gateway have written its URL and its token to *home*."""
    (home / "gateway.json").write_text(json.dumps({"pid": 1, "url": url}))
    (home / "token").write_text("own\n")


@pytest.mark.parametrize(
    ("noted", "called"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("http://0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("http://[::]:9000", "http://[::1]:9000"),
    ],
)
def test_the_gateway_of_a_home_is_called_with_its_token_on_this_machine_whatever_it_listens_on(
    tmp_path: Path, noted: str, called: str
) -> None:
    note(tmp_path, noted)

    assert (url_in(tmp_path), token_in(tmp_path, called)) == (called, "own")


@pytest.mark.parametrize("noted", [None, "", 7, "http://127.0.0.1:port"])
def test_a_home_without_a_url_has_no_gateway(tmp_path: Path, noted: object) -> None:
    note(tmp_path, noted)

    assert url_in(tmp_path) is None
    assert url_in(tmp_path / "none") is None
