"""The tests of SQLAlchemy's suite, as they are; those for which there is no requirement are left out here."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index, event, testing
from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *  # noqa: F403
from sqlalchemy.testing.suite import ComponentReflectionTestExtra as _ComponentReflectionTestExtra
from sqlalchemy.testing.suite import InsertBehaviorTest as _InsertBehaviorTest
from sqlalchemy.testing.suite import LongNameBlowoutTest as _LongNameBlowoutTest


@event.listens_for(Index, "after_parent_attach")
def leave_out(index: Index, parent: Any) -> None:
    """The dialect refuses indexes, and the suite puts some on tables whose columns it wants to reflect."""
    parent.indexes.discard(index)


class ComponentReflectionTestExtra(_ComponentReflectionTestExtra):
    @testing.skip("freshtable", "Iceberg stores texts of any length, so that lengths are not kept")
    def test_string_length_reflection(self) -> None: ...


class InsertBehaviorTest(_InsertBehaviorTest):
    @testing.skip("freshtable", "keys are not generated")
    def test_insert_from_select_autoinc(self) -> None: ...

    @testing.skip("freshtable", "keys are not generated")
    def test_insert_from_select_autoinc_no_rows(self) -> None: ...

    @testing.skip("freshtable", "keys are not generated")
    def test_no_results_for_non_returning_insert(self) -> None: ...


class LongNameBlowoutTest(_LongNameBlowoutTest):
    @testing.skip("freshtable", "there are no constraints and indexes that could have names")
    def test_long_convention_name(self) -> None: ...


class _OnlyRead:
    """For tests none of which writes to the tables that all of them read: those are filled once."""

    run_inserts = "once"
    run_deletes = None


class CompoundSelectTest(_OnlyRead, suite.CompoundSelectTest): ...


class ExpandingBoundInTest(_OnlyRead, suite.ExpandingBoundInTest): ...


class FetchLimitOffsetTest(_OnlyRead, suite.FetchLimitOffsetTest): ...


class JoinTest(_OnlyRead, suite.JoinTest): ...


class OrderByLabelTest(_OnlyRead, suite.OrderByLabelTest): ...


class RowFetchTest(_OnlyRead, suite.RowFetchTest): ...


class TableViaSelectTest(_OnlyRead, suite.TableViaSelectTest): ...


class WindowFunctionTest(_OnlyRead, suite.WindowFunctionTest): ...
