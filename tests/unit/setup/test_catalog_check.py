from mt_core.model.catalog import CatalogAbilities
from mt_core.setup.catalog_check import lines


def test_each_ability_of_a_catalog_has_a_line_and_the_last_says_what_it_can_hold() -> None:
    shown = list(lines("prod", CatalogAbilities(has_views=False, takes_purge=True, chooses_locations=True)))

    assert shown == [
        "ok       refuses a commit to a branch that another commit has moved in the meantime",
        "ok       keeps earlier snapshots of a table",
        "ok       keeps properties of a table",
        "ok       keeps branches of a table",
        "ok       drops tables",
        "ok       sends the location of a table's metadata, by which Iceberg recognizes a change",
        "ok       leaves it to clients which files of a table they read",
        "ok       creates a table with its first snapshot in one commit",
        "note     not: stores views; tables with a connector cannot be created in it",
        "ok       drops a table with its files on request",
        "note     not: deletes the files at once; Freshtable deletes files that it still finds after DROP",
        "ok       chooses where a table is stored",
        "Catalog prod can hold materialized tables and tables that streams write.",
    ]


def test_a_catalog_that_lacks_something_is_a_problem() -> None:
    shown = list(lines("prod", CatalogAbilities(keeps_history=False)))

    assert shown[1] == "problem  not: keeps earlier snapshots of a table"
    assert shown[-1] == (
        "Catalog prod cannot hold materialized tables or tables that streams write; sources can be in it."
    )
