"""Names of new tables, views, databases and functions do not leave the folder of their catalog."""

from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid, TableExists
from mt_core.model.new_names import check_new_name
from tests.support.manager_world import DAILY, ManagerWorld

BAD = ["../../esc", "a/b", "/", "..", ".", "a\\b", "a\nb", "a\tb", "a\x00b", "\x7f", "a\u2028b"]
MATERIALIZED = (
    "CREATE MATERIALIZED TABLE {} FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT * FROM orders"
)


@pytest.mark.parametrize("part", BAD)
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_name_that_leaves_its_folder_is_refused_in_every_place(part: str, place: int) -> None:
    name = ["lake", "a", "b", "c"]
    name[place] = part

    with pytest.raises(
        DefinitionInvalid, match=r"a slash, a backslash or a control character, or be \. or \.\."
    ):
        check_new_name(name)


@pytest.mark.parametrize(
    "part", ["a", "Äpfel", "a b", ".hidden", "a..b", "...", "a-b", "x%2fy", "{{ x }}", "`", "表"]
)
def test_any_other_name_is_accepted(part: str) -> None:
    check_new_name(("lake", part, part))


def test_a_refusal_shows_control_characters_as_escapes() -> None:
    with pytest.raises(DefinitionInvalid) as refused:
        check_new_name(("lake", "a", "b\nc\x00"))

    assert str(refused.value).startswith(r"lake.a.`b\nc\x00`: a new name must not contain")
    assert refused.value.facts == {"name": r"lake.a.`b\nc\x00`"}


@pytest.mark.parametrize("explain", ["", "EXPLAIN "])
@pytest.mark.parametrize("name", ["`../../x`", "lake.default.`a/b`", "lake.`..`.x"])
def test_a_materialized_table_is_not_created_outside_of_its_folder(name: str, explain: str) -> None:
    world = ManagerWorld()

    with pytest.raises(DefinitionInvalid, match="a new name must not contain"):
        world.sql(explain + MATERIALIZED.format(name))

    assert (world.engine.storages, world.show("SHOW MATERIALIZED TABLES")) == ({}, [])


def test_create_says_of_a_table_that_exists_that_it_exists() -> None:
    world = ManagerWorld()
    world.sql(DAILY)

    with pytest.raises(TableExists):
        world.sql(DAILY)
