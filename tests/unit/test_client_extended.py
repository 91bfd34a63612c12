from __future__ import annotations

import pytest

from mt_core.client.extended import extended_rows
from mt_core.errors import GatewayError, SqlSyntaxError, TableNotFound


def test_an_older_gateway_is_asked_without_extended() -> None:
    asked = list[str]()

    def rows(statement: str) -> list[dict[str, str]]:
        asked.append(statement)
        if "EXTENDED" in statement:
            raise GatewayError('Encountered "EXTENDED"', code=SqlSyntaxError.code)
        return [{"materialized table": "daily"}]

    assert extended_rows(rows, "SHOW REFRESHES FOR t", " LIMIT 20") == [{"materialized table": "daily"}]
    assert asked == ["SHOW REFRESHES FOR t EXTENDED LIMIT 20", "SHOW REFRESHES FOR t LIMIT 20"]


def test_another_error_of_extended_is_told() -> None:
    def rows(statement: str) -> list[dict[str, str]]:
        raise GatewayError("There is no table t.", code=TableNotFound.code)

    with pytest.raises(GatewayError, match="There is no table t"):
        extended_rows(rows, "SHOW REFRESHES FOR t")
