"""Catalogs created by CREATE CATALOG, and what a catalog can do with tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAbilities:
    """What a catalog can do with tables.

    Without one of the first seven abilities, a catalog cannot hold the tables that Freshtable writes. The
    others decide how such a table is created and dropped: `creates_with_snapshot` means that a table and its
    first snapshot are created in one commit, `takes_purge` that a table can be dropped with the request to
    delete its files, and `deletes_files` that the files are then deleted at once. A catalog that
    `chooses_locations` decides where a new table is stored.
    """

    asserts_branches: bool = True
    keeps_history: bool = True
    keeps_properties: bool = True
    keeps_branches: bool = True
    drops_tables: bool = True
    sends_metadata_location: bool = True
    leaves_scans_to_clients: bool = True
    creates_with_snapshot: bool = True
    has_views: bool = True
    takes_purge: bool = False
    deletes_files: bool = False
    chooses_locations: bool = False

    @property
    def lacking(self) -> tuple[str, ...]:
        """What the catalog does not do, although tables of Freshtable need it; verbs after "does not"."""
        return tuple(
            words
            for words, has in (
                (
                    "refuse a commit to a branch that another commit has moved in the meantime",
                    self.asserts_branches,
                ),
                ("keep earlier snapshots of a table", self.keeps_history),
                ("keep properties of a table", self.keeps_properties),
                ("keep branches of a table", self.keeps_branches),
                ("drop tables", self.drops_tables),
                (
                    "send the location of a table's metadata, by which Iceberg recognizes a change",
                    self.sends_metadata_location,
                ),
                (
                    "leave it to clients which files of a table they read (scan-planning-mode is server)",
                    self.leaves_scans_to_clients,
                ),
            )
            if not has
        )

    @classmethod
    def from_json(cls, body: Mapping[str, bool]) -> CatalogAbilities | None:
        """Return the abilities that another release may have stored, or None if it asked for others."""
        if body.keys() != {each.name for each in fields(cls)}:
            return None
        return cls(**body)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedCatalog:
    """A catalog created by CREATE CATALOG; the repr omits its options, which may contain passwords.

    `abilities` are those of the catalog with these options, or None if they are not known yet.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)
    comment: str | None = None
    abilities: CatalogAbilities | None = field(default=None, compare=False)
