"""What an engine on Spark and Iceberg can do of what SQLAlchemy's suite asks for,
and why it cannot do the rest.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

YES: Any = exclusions.open()


def no(reason: str) -> Any:
    return exclusions.skip_if(lambda: True, reason)


NO_KEYS = "tables have no keys, so none is generated, checked, or reflected"
NO_TRANSACTIONS = "there are no transactions: every statement commits itself"


class Requirements(SuiteRequirements):
    """Each attribute is asked for by name by the tests that need it."""

    # What there is though the suite does not expect it.
    ctes = except_ = intersect = window_functions = YES
    order_by_label_with_expression = group_by_complex_expression = YES
    sql_expression_limit_offset = YES
    regexp_match = regexp_replace = YES
    supports_bitwise_and = supports_bitwise_or = supports_bitwise_not = YES
    supports_bitwise_xor = supports_bitwise_shift = YES
    views = comment_reflection = comment_reflection_full_unicode = unicode_ddl = YES
    datetime_timezone = datetime_literals = datetime_historic = date_historic = timestamp_microseconds = YES
    precision_numerics_enotation_small = precision_numerics_many_significant_digits = YES
    precision_numerics_retains_significant_digits = infinity_floats = YES
    table_ddl_if_exists = schema_create_delete = YES
    table_value_constructor = ctes_with_values = YES
    nullsordering = YES
    percent_schema_names = YES
    tuple_in = tuple_in_w_empty = window_range = window_range_numeric = YES
    # Left out of CREATE TABLE like the other constraints.
    foreign_key_ddl = YES

    # What there is not.
    autoincrement_insert = no(NO_KEYS)
    autoincrement_without_sequence = no(NO_KEYS)
    implements_get_lastrowid = no(NO_KEYS)
    duplicate_key_raises_integrity_error = no(NO_KEYS)
    primary_key_constraint_reflection = no(NO_KEYS)
    foreign_keys = foreign_key_constraint_reflection = no(NO_KEYS)
    self_referential_foreign_keys = on_update_cascade = no(NO_KEYS)
    unique_constraint_reflection = no(NO_KEYS)
    named_constraints = implicitly_named_constraints = no(NO_KEYS)
    index_reflection = indexes_with_ascdesc = reflect_indexes_with_ascdesc = no("tables have no indexes")
    temporary_tables = temp_table_reflection = no("Spark has temporary views, and no temporary tables")
    time = time_microseconds = time_implicit_bound = no("Iceberg has no column type for Spark's TIME")
    empty_inserts = empty_inserts_executemany = no("INSERT needs the values of a column")
    isolation_level = no(NO_TRANSACTIONS)
    savepoints = two_phase_transactions = no(NO_TRANSACTIONS)
    sane_rowcount = sane_multi_rowcount = no(
        "an UPDATE that writes files again does not count the rows it changed"
    )

    # What the suite takes to be missing unless it is told otherwise, and is.
    computed_columns = identity_columns = no("Iceberg has neither computed nor identity columns")
    server_defaults = expression_server_defaults = no(
        "Iceberg tables of format 2 keep no defaults of columns"
    )
    check_constraint_reflection = no(NO_KEYS)
    foreign_key_constraint_name_reflection = cross_schema_fk_reflection = no(NO_KEYS)
    dbapi_lastrowid = emulated_lastrowid = no(NO_KEYS)
    insert_returning = update_returning = delete_returning = no("Spark has no RETURNING")
    insert_executemany_returning = insertmanyvalues = no("Spark has no RETURNING")
    fetch_first = fetch_no_order_by = fetch_ties = fetch_percent = no(
        "Spark has LIMIT and OFFSET, and no FETCH FIRST"
    )
    fetch_offset_with_options = fetch_expression = no("Spark has LIMIT and OFFSET, and no FETCH FIRST")
    update_from = delete_from = ctes_with_update_delete = ctes_on_dml = no(
        "Spark writes such changes as MERGE"
    )
    temporary_views = temp_table_names = has_temp_table = no(
        "Spark's temporary views belong to a session, and SQLAlchemy's pool opens more of them"
    )
    temp_table_comment_reflection = create_temp_table_as = no(
        "Spark has temporary views, and no temporary tables"
    )
    materialized_views = no(
        "CREATE MATERIALIZED TABLE asks for a freshness, which SQLAlchemy's statement has no words for"
    )
    json_type = no("JSON is kept as text; its parts are read by Spark's functions")
    array_type = no("the suite's arrays are those of PostgreSQL; test_client_on_spark.py has ours")
    uuid_data_type = no("UUIDs are kept as text")
    supports_distinct_on = no("DISTINCT ON is PostgreSQL's")
    order_by_collation = no("the suite asks for the collations of the dialects it knows")
    default_schema_name_switch = no(
        "a session keeps the schema of its URL; USE changes it behind SQLAlchemy's back"
    )
    server_side_cursors = no("every cursor fetches its rows as they are read, so there is no other kind")
    sequences = sequences_optional = no("Spark has no sequences")
