"""Change numbers of tables and runs, the instants of runs as columns, notices, and hours of freshness."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision: str | None = "0015"
branch_labels: str | None = None
depends_on: str | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
INSTANTS = ("started_at", "finished_at")


def upgrade() -> None:
    for table in ("materialized_tables", "runs"):
        number = sa.Column("changed", sa.BigInteger, nullable=False, server_default=sa.text("0"))
        op.add_column(table, number)
    for name in (*INSTANTS, "reason_code"):
        op.add_column("runs", sa.Column(name, TEXT))
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    if is_sqlite:
        _fill_instants_of_sqlite()
    else:
        _fill_instants_of_postgresql()
    _index()
    _create_tables()
    if not is_sqlite and op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM runs)")):
        # Without statistics of the new column, a search for the last changes would read the whole ledger.
        # PostgreSQL itself collects them only after a tenth of the ledger has changed.
        op.execute("ANALYZE materialized_tables")
        op.execute("ANALYZE runs")


def _fill_instants_of_sqlite() -> None:
    values = ", ".join(f"{name} = json_extract(body, '$.{name}')" for name in INSTANTS)
    op.execute(f"UPDATE runs SET {values} WHERE json_valid(body)")


def _fill_instants_of_postgresql() -> None:
    """Rewrite the table, which is faster than updating each row with its entries in all indexes.

    A row whose body is not JSON must not prevent the migration; it is unreadable before and afterwards.
    """
    op.execute(
        """
        CREATE FUNCTION pg_temp.instant(body text, name text) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN RETURN body::json ->> name; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$
        """
    )
    rewritten = ", ".join(
        f"ALTER {name} TYPE text COLLATE \"C\" USING pg_temp.instant(body, '{name}')" for name in INSTANTS
    )
    op.execute(f"ALTER TABLE runs {rewritten}")
    op.execute("DROP FUNCTION pg_temp.instant")


def _index() -> None:
    op.create_index("materialized_tables_by_change", "materialized_tables", ["changed"])
    op.create_index("runs_by_change", "runs", ["changed"])
    finished = sa.text("finished_at IS NOT NULL")
    op.create_index(
        "runs_by_finish", "runs", ["finished_at"], sqlite_where=finished, postgresql_where=finished
    )


def _create_tables() -> None:
    op.create_table(
        "deletions",
        sa.Column("table_id", TEXT, primary_key=True),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", TEXT, nullable=False),
    )
    op.create_index("deletions_by_change", "deletions", ["changed"])
    op.create_table(
        "notices",
        sa.Column("number", SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.Column("body", TEXT, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "freshness_hours",
        sa.Column("table_id", TEXT, primary_key=True),
        sa.Column("hour", TEXT, primary_key=True),
        sa.Column("worst_s", sa.Double, nullable=False),
        sa.Column("late_s", sa.Double, nullable=False),
        sa.Column("fault", TEXT),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("batches", "rows", "failed")),
    )
    op.create_index("freshness_hours_by_hour", "freshness_hours", ["hour"])
