from __future__ import annotations

import pytest

from mt_core.app.settings import api_versions, session_defaults
from mt_core.config import load_config
from mt_core.errors import ConfigError

KEY = "sql-gateway.endpoint.rest.api-versions"


@pytest.mark.parametrize(
    ("text", "versions"),
    [(None, ("V1", "V2", "V3", "V4")), ("V1, v2", ("V1", "V2")), ("V2,V1,V2", ("V2", "V1"))],
)
def test_the_versions_that_clients_are_told_of_are_a_setting(
    text: str | None, versions: tuple[str, ...]
) -> None:
    config = load_config(overrides=[f"{KEY}={text}"] if text else [])

    assert api_versions(config) == versions


@pytest.mark.parametrize("text", ["V5", "V1;V2", "V1,,V2"])
def test_a_version_that_is_none_is_refused_with_those_there_are(text: str) -> None:
    config = load_config(overrides=[f"{KEY}={text}"])

    with pytest.raises(
        ConfigError, match=r"is not an API version; expected some of V1, V2, V3, V4, separated by commas\."
    ):
        api_versions(config)


def test_a_limit_of_statements_is_a_property_of_sessions_only_when_there_is_one() -> None:
    without, limited = load_config(), load_config(overrides=["execution.timeout=10 s"])

    assert "execution.timeout" not in session_defaults(without)
    assert session_defaults(limited)["execution.timeout"] == "10000 ms"
