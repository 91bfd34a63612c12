"""What a job stores of a table that it writes is read again."""

from __future__ import annotations

import pytest

from mt_core.model.stream_plan import SinkTarget


@pytest.mark.parametrize("keys", [(), ("id", "day")])
def test_a_target_is_read_as_it_was_stored(keys: tuple[str, ...]) -> None:
    target = SinkTarget(table=("lake", "shop", "totals"), connector="jdbc", stored_name="`a`.`b`", keys=keys)

    assert SinkTarget.from_json(target.to_json()) == target
