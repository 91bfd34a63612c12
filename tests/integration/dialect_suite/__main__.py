"""Runs SQLAlchemy's own suite for dialects against a gateway:
`python -m tests.integration.dialect_suite URL all|chosen [-k …]`.

In a process of its own: SQLAlchemy's plug-in changes how pytest collects,
and our settings of pytest are not for its tests. Of the chosen tests, one case each runs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry

FOLDER = Path(__file__).parent
CHOSEN = {
    # The reflection, and the names that it is asked for.
    "ComponentReflectionTest": (
        *("test_metadata", "test_get_table_names", "test_get_view_names", "test_get_view_definition"),
        *(
            "test_get_columns",
            "test_get_multi_columns",
            "test_get_multi_table_comment",
            "test_comments_unicode_full",
        ),
        *(
            "test_get_comments_with_schema",
            "test_not_existing_table",
            "test_get_schema_names",
            "test_has_schema",
        ),
    ),
    "ComponentReflectionTestExtra": ("test_numeric_reflection", "test_nullable_reflection"),
    "HasTableTest": (
        *("test_has_table", "test_has_table_schema", "test_has_table_nonexistent_schema"),
        *("test_has_table_view", "test_has_multi_table"),
    ),
    "QuotedNameArgumentTest": ("test_get_columns", "test_get_table_comment", "test_get_view_definition"),
    "BizarroCharacterTest": ("test_reflect_comments",),
    # What the compilers of the dialect write: tables, limits, empty sets, literals.
    "TableDDLTest": (
        "test_create_table_schema",
        "test_create_table_if_not_exists",
        "test_drop_table_comment",
    ),
    "FetchLimitOffsetTest": (
        *(
            "test_simple_limit_offset",
            "test_simple_offset",
            "test_bound_limit_offset",
            "test_expr_limit_offset",
        ),
    ),
    "ExpandingBoundInTest": (
        *("test_empty_homogeneous_tuples_bindparam", "test_empty_heterogeneous_tuples_direct"),
        *("test_empty_set_against_integer_negation_bindparam", "test_bound_in_two_tuple_bindparam"),
        "test_nonempty_in_plus_empty_notin",
    ),
    "EscapingTest": ("test_percent_sign_round_trip",),
    "LikeFunctionsTest": ("test_contains_autoescape_escape",),
    "DifficultParametersTest": ("test_round_trip_same_named_column",),
    # Types as columns, as parameters and as literals.
    "BinaryTest": ("test_binary_roundtrip",),
    "BooleanTest": ("test_round_trip", "test_render_literal_bool"),
    "DateTest": ("test_round_trip_decorated", "test_literal"),
    "DateTimeTest": ("test_round_trip",),
    "DateTimeTZTest": ("test_round_trip", "test_literal"),
    "TimestampMicrosecondsTest": ("test_round_trip",),
    "EnumTest": ("test_round_trip",),
    "IntegerTest": ("test_huge_int",),
    "NumericTest": ("test_numeric_as_decimal", "test_render_literal_numeric", "test_infinity_floats"),
    "StringTest": ("test_literal_quoting", "test_literal_backslashes"),
    "TextTest": ("test_literal_percentsigns",),
    "UuidTest": ("test_literal_uuid",),
    # Statements that SQLAlchemy writes, and Spark has to understand.
    "CTETest": ("test_select_nonrecursive_round_trip",),
    "CompoundSelectTest": ("test_limit_offset_aliased_selectable_in_unions",),
    "SameNamedSchemaTableTest": ("test_simple_join_both_tables",),
    "TableViaSelectTest": ("test_literal_inlining_inside_select",),
    "TrueDivTest": ("test_floordiv_integer",),
    "ValuesExpressionTest": ("test_tuples",),
}
"""The tests whose outcome depends on the dialect or on Spark; the others of their groups are variants."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A plug-in that skips all but the chosen tests, and what is left of a chosen one once a case
    of it has passed.
    """

    _passed: set[tuple[str, str]] = field(default_factory=set)

    # Before the tables of the group are made.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        group, test = _group_and_test(item.nodeid)
        if test not in CHOSEN.get(group, ()):
            pytest.skip("this test was not chosen")
        if (group, test) in self._passed:
            pytest.skip("another case of this test has passed")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(_group_and_test(report.nodeid))


def _group_and_test(nodeid: str) -> tuple[str, str]:
    """Return the names of the class, as the suite has it, and of the test without its parameters."""
    _, group, test = nodeid.partition("[")[0].split("::")
    return group.partition("_")[0], test


def main(url: str, which: str, *options: str) -> int:
    for name in ("freshtable", "freshtable.gateway"):
        registry.register(name, "mt_core.client.dialect", "FreshtableDialect")
    return pytest.main(
        [
            str(FOLDER / "suite.py"),
            *("-c", str(FOLDER / "setup.cfg"), "--rootdir", str(FOLDER), "-p", "no:cacheprovider"),
            *("-p", "sqlalchemy.testing.plugin.pytestplugin", "--dburi", url),
            *options,
        ],
        plugins=[Chosen()] if which == "chosen" else [],
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
