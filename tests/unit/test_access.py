"""Tokens and roles: what the configuration says, what is found by a secret, and what is loopback."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mt_core.app.home import Home
from mt_core.app.tokens import gateway_tokens
from mt_core.base.access import Role, find_token, is_loopback, parse_tokens
from mt_core.config import load_config
from mt_core.errors import ConfigError


def test_a_token_has_a_name_a_role_and_a_secret_and_a_secret_alone_is_an_admin() -> None:
    tokens = parse_tokens("anna:sql:a:b, hunter2 ,airflow:refresh:c,ops:read:d")

    assert [(token.name, token.role, token.secret.reveal()) for token in tokens] == [
        ("anna", Role.SQL, "a:b"),
        ("token-2", Role.ADMIN, "hunter2"),
        ("airflow", Role.REFRESH, "c"),
        ("ops", Role.READ, "d"),
    ]
    assert str(tokens[0]) == "anna:sql:***"
    assert "hunter2" not in repr(tokens)


@pytest.mark.parametrize(
    "text", ["anna:raed:hunter2", "anna:hunter2", "anna:sql:", ":sql:hunter2", "a b:sql:hunter2"]
)
def test_a_misspelt_token_is_refused_and_never_an_admin(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=[f"sql-gateway.security.tokens=good,{text}"])

    assert str(refused.value) == (
        "sql-gateway.security.tokens (-D sql-gateway.security.tokens): token 2 cannot be used; "
        "expected name:role:secret with a role of admin, sql, refresh, read, or a secret without a colon."
    )


@pytest.mark.parametrize(
    ("text", "what"), [("a:sql:x,a:read:y", "name"), ("a:sql:hunter2,hunter2", "secret")]
)
def test_two_tokens_of_one_name_or_one_secret_are_refused(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=f"token 2 has the {what} of another") as refused:
        parse_tokens(text)

    assert "hunter2" not in str(refused.value)


def test_a_token_is_found_by_its_whole_secret() -> None:
    tokens = parse_tokens("a:sql:first,b:read:séc")

    assert [
        found and found.name for found in (find_token(tokens, sent) for sent in ("first", "séc", "firs", ""))
    ] == [
        "a",
        "b",
        None,
        None,
    ]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_the_names_and_addresses_of_this_machine_are_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["localhost.corp.example", "127.evil.example", "::1234:1", "0.0.0.0", "", "10.0.0.1"]
)
def test_what_only_begins_like_loopback_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_a_generated_token_is_kept_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    first = gateway_tokens(parse_tokens("generate,ops:read:x"), file)
    file.chmod(0o644)

    again = gateway_tokens(parse_tokens("generate"), file)

    assert [(token.name, token.role) for token in first] == [
        ("generated", Role.ADMIN),
        ("ops", Role.READ),
        ("scheduler", Role.REFRESH),
    ]
    assert first[0].secret == again[0].secret
    assert len(first[0].secret.reveal()) >= 40
    assert first[0].secret.reveal() == file.read_text(encoding="ascii").strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_an_empty_token_file_is_no_token_that_everybody_has(tmp_path: Path) -> None:
    (tmp_path / "token").touch()

    with pytest.raises(ConfigError, match="is empty; remove the file"):
        gateway_tokens(parse_tokens("generate"), tmp_path / "token")


def test_without_tokens_there_is_none_for_the_scheduler_either(tmp_path: Path) -> None:
    assert gateway_tokens((), tmp_path / "token") == ()


def test_nobody_else_can_look_into_the_home_folder(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o755)
    home = Home(folder)

    home.take()

    home.release()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
