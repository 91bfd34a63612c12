"""Commands on catalogs: CREATE, ALTER, DROP, USE, DESCRIBE and SHOW CREATE CATALOG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mt_core.base.identifiers import property_list, sql_name, string_literal
from mt_core.base.rowset import RowSet
from mt_core.base.secrets import masked, redacted
from mt_core.errors import DefinitionInvalid, EngineUnavailable, MtError
from mt_core.model.catalog import CreatedCatalog
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs, already_there
from mt_core.sessions.operations.operation import DONE, OperationResult, content
from mt_core.sessions.ports import CatalogEngine
from mt_core.sessions.statements.catalog_requests import Answers
from mt_core.sessions.statements.listings import INFO, CatalogRequest, names_only
from mt_core.sql import catalog as sql
from mt_core.sql.connectors.catalog_options import catalog_settings


@dataclass(frozen=True, slots=True)
class CatalogCommands:
    """Performs commands on catalogs.

    Created catalogs are stored in the registry and shared by all sessions.
    """

    engine: CatalogEngine
    shared: CreatedCatalogs

    @property
    def answers(self) -> Answers:
        """The function that performs each command. It raises DefinitionInvalid or IllegalStatus."""
        return {
            sql.CreateCatalog: self._create,
            sql.AlterCatalog: self._alter,
            sql.DropCatalog: self._drop,
            sql.UseCatalog: self._use,
            sql.DescribeCatalog: self._describe,
            sql.ShowCreateCatalog: self._show_create,
        }

    # ----------------------------------------------------------------------------------------------- commands

    def _create(self, statement: sql.CreateCatalog, request: CatalogRequest) -> OperationResult:
        """Store a catalog that Spark can open. If Spark cannot, raise DefinitionInvalid with the reason."""
        name = statement.name
        if name in self.engine.catalogs(request.context):
            if statement.if_not_exists:
                return DONE
            self.shared.check_changeable(name, "created")
            raise already_there(name)
        catalog = CreatedCatalog(name=name, options=dict(statement.options), comment=statement.comment)
        self._open(catalog, "was not created")
        self.shared.create(catalog)
        return DONE

    def _alter(self, statement: sql.AlterCatalog, request: CatalogRequest) -> OperationResult:
        """Change the options or the comment of a catalog.

        Raises DefinitionInvalid if Spark cannot open the catalog with the new options.
        """
        catalog = self._created(statement.name, request, "altered")
        if "type" in {*statement.options, *statement.removed}:
            raise DefinitionInvalid(
                f"Catalog {catalog.name}: its 'type' cannot be changed; create another catalog for it."
            )
        remaining = {key: value for key, value in catalog.options.items() if key not in statement.removed}
        altered = replace(
            catalog,
            options={**remaining, **statement.options},
            comment=catalog.comment if statement.comment is None else statement.comment,
        )
        if altered.options != catalog.options:
            altered = replace(altered, abilities=None)
            self._open(altered, "was not altered")
        self.shared.alter(altered, expected=catalog)
        return DONE

    def _drop(self, statement: sql.DropCatalog, request: CatalogRequest) -> OperationResult:
        """Drop a catalog.

        Raises DefinitionInvalid, or IllegalStatus naming the materialized tables that use it.
        """
        name = statement.name
        if statement.if_exists and name not in self.engine.catalogs(request.context):
            return DONE
        self._created(name, request, "dropped")
        if self.engine.session_state(request.context).catalog == name:
            raise DefinitionInvalid(
                f"Catalog {name} is the current catalog and cannot be dropped; USE CATALOG another first."
            )
        self.shared.drop(name)
        return DONE

    def _use(self, statement: sql.UseCatalog, request: CatalogRequest) -> OperationResult:
        self._options_of(statement.name, request)
        self.engine.execute(
            request.context, f"SET CATALOG {sql_name((statement.name,))}", job_id=request.job_id
        )
        return DONE

    def _describe(self, statement: sql.DescribeCatalog, request: CatalogRequest) -> OperationResult:
        """Answer DESCRIBE CATALOG; EXTENDED adds the options."""
        name = statement.name
        options, created = self._options_of(name, request), self.shared.get(name)
        rows: list[list[Any]] = [
            ["name", name],
            ["type", options.get("type", "")],
            ["comment", created.comment if created else None],
        ]
        if statement.extended:
            rows += [[f"option:{key}", value] for key, value in masked(options).items() if key != "type"]
        return content(RowSet(columns=INFO, rows=rows))

    def _show_create(self, statement: sql.ShowCreateCatalog, request: CatalogRequest) -> OperationResult:
        """Answer SHOW CREATE CATALOG, with secrets masked."""
        name = statement.name
        options, created = self._options_of(name, request), self.shared.get(name)
        comment = (
            f"\nCOMMENT {string_literal(created.comment)}"
            if created is not None and created.comment is not None
            else ""
        )
        lines = property_list(masked(options), ",\n  ")
        text = f"CREATE CATALOG {sql_name((name,))}{comment}\nWITH (\n  {lines}\n)\n"
        return content(names_only("result", [text]))

    # ----------------------------------------------------------------------------------------------- internal

    def _open(self, catalog: CreatedCatalog, failed: str) -> None:
        """Open the catalog in Spark, so that a wrong option fails this statement and not the first query."""
        settings = catalog_settings(catalog.name, catalog.options)
        try:
            self.engine.open_catalog(catalog.name, settings)
        except EngineUnavailable:
            raise
        except MtError as cause:
            reason = redacted(str(cause), catalog.options)
            raise DefinitionInvalid(
                f"Catalog {catalog.name} cannot be opened, and {failed}: {reason}"
            ) from cause

    def _options_of(self, name: str, request: CatalogRequest) -> Mapping[str, str]:
        """Return the options of a catalog. Raises DefinitionInvalid if it does not exist."""
        catalogs = self.engine.catalogs(request.context)
        if name not in catalogs:
            raise DefinitionInvalid(
                f"Catalog {name} does not exist; the catalogs are {', '.join(sorted(catalogs))}. "
                "CREATE CATALOG adds one."
            )
        created = self.shared.get(name)
        return created.options if created is not None else catalogs[name]

    def _created(self, name: str, request: CatalogRequest, verb: str) -> CreatedCatalog:
        """Return a catalog that a statement created. Raises DefinitionInvalid for a configured catalog."""
        self.shared.check_changeable(name, verb)
        created = self.shared.get(name)
        if created is None:
            self._options_of(name, request)
            raise DefinitionInvalid(
                f"Catalog {name} is a setting of the gateway or of this session and cannot be "
                f"{verb} by a statement."
            )
        return created
