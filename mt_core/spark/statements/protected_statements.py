"""The statements that are allowed on materialized tables, and alternatives to the others, by plan class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.errors import MtError, TableProtected, Unsupported
from mt_core.model.table import TableIdentifier

# These do not change a table's rows or columns. Any other command on a materialized table is refused.
HARMLESS = frozenset(
    {
        *(
            "AnalyzeTable",
            "AnalyzeColumn",
            "AnalyzeTables",
            "CacheTable",
            "CacheTableAsSelect",
            "UncacheTable",
        ),
        *("DescribeRelation", "DescribeColumn", "ShowTableProperties", "ShowColumns", "ShowPartitions"),
        *("InsertIntoDir", "InsertIntoHiveDirCommand", "CreateViewCommand"),
        *(
            "CreateFunction",
            "CreateUserDefinedFunction",
            "DropFunction",
            "RefreshFunction",
            "DescribeFunction",
        ),
        *("CreateVariable", "DropVariable", "SetVariable", "SetCatalogAndNamespace"),
    }
)
# These change only comments and tags of a table.
CHANGES_METADATA = frozenset({"CommentOnTable", "CreateOrReplaceTag", "DropTag"})
# Procedures that rewrite files without changing rows.
PROCEDURES = frozenset({"rewrite_data_files", "rewrite_manifests", "rewrite_position_delete_files"})
# Procedures that create a table, whose name is an argument.
NAMING_PROCEDURES = frozenset({"register_table", "snapshot"})
# In Iceberg's own statements, the field `table` has the table's name. In Spark's row changes, it has a
# relation.
TABLE_FIELD = frozenset(
    {
        *(
            "AddPartitionField",
            "DropPartitionField",
            "ReplacePartitionField",
            "SetWriteDistributionAndOrdering",
        ),
        *("SetIdentifierFields", "DropIdentifierFields", "CreateOrReplaceBranch", "DropBranch"),
        *("CreateOrReplaceTag", "DropTag"),
    }
)
WRITES_TO_ITS_TABLE = frozenset(
    {
        *("InsertIntoStatement", "OverwriteByExpression", "OverwritePartitionsDynamic", "AppendData"),
        *("UpdateTable", "DeleteFromTable"),
    }
)
# These require an existing namespace.
CREATES = frozenset(
    {
        *("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect"),
        *("CreateView", "CreateIcebergView"),
    }
)
# After these, streaming jobs no longer find a table under the name by which they read or write it.
TAKES_AWAY: Mapping[str, str] = {
    "DropTable": "DROP TABLE",
    "RenameTable": "ALTER TABLE … RENAME",
    # The view that represents a table with a connector.
    **dict.fromkeys(("DropView", "DropIcebergView"), "DROP TABLE"),
}
# After these, a query may refer to a missing column.
LOSES_COLUMNS = frozenset({"DropColumns", "RenameColumn", "ReplaceColumns"})

NEW_NAME = "choose another name"
_DROP = "use DROP MATERIALIZED TABLE {table}"
_ROWS = (
    "its rows are those of its query; ALTER MATERIALIZED TABLE {table} AS query changes the query, "
    "ALTER MATERIALIZED TABLE {table} REFRESH computes them again"
)
_COLUMNS = "its columns come from its query; use ALTER MATERIALIZED TABLE {table} AS query"
_OPTIONS = "use CREATE OR ALTER MATERIALIZED TABLE {table}"
_RENAME = "CREATE MATERIALIZED TABLE under the new name, then DROP MATERIALIZED TABLE {table}"
_NAME = "use CREATE OR ALTER MATERIALIZED TABLE {table}, or choose another name"
_BRANCH = "its branches belong to refreshes; tags are allowed"
_PROCEDURE = (
    "of Iceberg's procedures only rewrite_data_files, rewrite_manifests and rewrite_position_delete_files "
    "may; ALTER MATERIALIZED TABLE {table} REFRESH computes its rows again"
)
_VIEW = "use CREATE TEMPORARY VIEW … AS SELECT * FROM {table}"
_SHOW = "use SHOW CREATE MATERIALIZED TABLE {table}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A statement that is refused on materialized tables, and what to do instead.

    `{table}` in `way_out` is replaced by the table's name.
    """

    statement: str
    way_out: str
    changes: bool = True

    def of(self, table: TableIdentifier) -> MtError:
        way_out = self.way_out.format(table=table)
        if not self.changes:
            return Unsupported(
                f"{table} is a materialized table, and {self.statement} is for other tables: {way_out}."
            )
        return TableProtected(
            f"{table} is a materialized table, and {self.statement} must not change it: {way_out}.",
            table=str(table),
        )


_REFUSALS: Mapping[str, Refusal] = {
    "DropTable": Refusal("DROP TABLE", _DROP),
    **{kind: Refusal("DROP VIEW", _DROP) for kind in ("DropView", "DropIcebergView")},
    "RenameTable": Refusal("ALTER TABLE … RENAME TO", _RENAME),
    "InsertIntoStatement": Refusal("INSERT", _ROWS),
    **{
        kind: Refusal("INSERT", _ROWS)
        for kind in ("OverwriteByExpression", "OverwritePartitionsDynamic", "AppendData")
    },
    "UpdateTable": Refusal("UPDATE", _ROWS),
    "DeleteFromTable": Refusal("DELETE", _ROWS),
    "MergeIntoTable": Refusal("MERGE", _ROWS),
    "LoadData": Refusal("LOAD DATA", _ROWS),
    **{kind: Refusal("TRUNCATE TABLE", _ROWS) for kind in ("TruncateTable", "TruncatePartition")},
    **{
        kind: Refusal("ALTER TABLE … PARTITION", _ROWS)
        for kind in (
            "AddPartitions",
            "DropPartitions",
            "RenamePartitions",
            "RecoverPartitions",
            "RepairTable",
        )
    },
    **{
        kind: Refusal("ALTER TABLE", _COLUMNS)
        for kind in ("AddColumns", "DropColumns", "RenameColumn", "AlterColumns", "ReplaceColumns")
    },
    **{
        kind: Refusal("CREATE TABLE", _NAME)
        for kind in (
            "CreateTable",
            "CreateTableAsSelect",
            "CreateTableLikeCommand",
            "CreateStreamingTableAsSelect",
        )
    },
    **{kind: Refusal("REPLACE TABLE", _NAME) for kind in ("ReplaceTable", "ReplaceTableAsSelect")},
    **{
        kind: Refusal("CREATE VIEW", _NAME)
        for kind in ("CreateView", "CreateIcebergView", "CreateMaterializedViewAsSelect")
    },
    "CreateTempViewUsing": Refusal("a temporary view USING iceberg", _VIEW),
    **{
        kind: Refusal("a statement about branches", _BRANCH)
        for kind in ("CreateOrReplaceBranch", "DropBranch")
    },
    "RefreshTable": Refusal("REFRESH TABLE", "use REFRESH MATERIALIZED TABLE {table}", changes=False),
    "ShowCreateTable": Refusal("SHOW CREATE TABLE", _SHOW, changes=False),
}


def refusal_of(kind: str, words: str) -> Refusal:
    """Return the refusal for a plan class. *words* name a statement that has no specific refusal."""
    if kind == "Call":
        return Refusal(words, _PROCEDURE)
    return _REFUSALS.get(kind, Refusal(words, _OPTIONS))
