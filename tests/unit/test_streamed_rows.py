from __future__ import annotations

import json
import threading
from collections.abc import Generator
from queue import Queue

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from mt_core.base.rowset import ROW_KIND, PageForm, RowKind
from mt_core.errors import Canceled, EngineUnavailable, MtError, QueryFailed
from mt_core.spark.results.arrow import ResultForm
from mt_core.spark.results.row_stream import StreamedRows
from mt_core.spark.results.spool import Spools
from tests.support.streamed_rows import WAIT_S, ended, table_of

FORM = ResultForm(spark.StructType([spark.StructField("n", spark.LongType(), nullable=False)]))


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=FORM.schema)


class Query:
    """A query whose batches, pauses (None), end and errors the test tells one after the other."""

    def __init__(self, *told: pa.RecordBatch | MtError | str | None, spools: Spools | None = None) -> None:
        self._told: Queue[pa.RecordBatch | MtError | str | None] = Queue()
        self.tell(*told)
        self.stopped = threading.Event()
        self.rows = StreamedRows(FORM, (spools or Spools()).new(FORM.schema), self._batches(), self._stop)

    def tell(self, *told: pa.RecordBatch | MtError | str | None) -> None:
        for each in told:
            self._told.put(each)

    def _stop(self) -> None:
        self.stopped.set()
        self.tell(Canceled("Job was cancelled."))

    def _batches(self) -> Generator[pa.RecordBatch | None]:
        while (each := self._told.get(timeout=WAIT_S)) != "end":
            if isinstance(each, MtError):
                raise each
            yield each


def values(stream: memoryview | bytes) -> list[int]:
    found: list[int] = pa.ipc.open_stream(stream).read_all().column(0).to_pylist()
    return found


def test_a_small_result_is_read_without_a_thread() -> None:
    query = Query(batch(1, 2), batch(3))
    query.tell("end")
    threads = threading.active_count()

    query.rows.begin()

    assert (query.rows.running, threading.active_count()) == (False, threads)
    assert query.rows.page(0, 10) == [[1], [2], [3]]


def test_the_first_rows_are_there_while_the_query_goes_on() -> None:
    query = Query(None, batch(1, 2), None)

    query.rows.begin()

    assert (query.rows.running, query.rows.page(0, 2), query.rows.available(2, 5, 0)) == (True, [[1], [2]], 0)
    query.tell(batch(3), "end")
    assert (query.rows.available(2, 5, WAIT_S), query.rows.page(1, 5)) == (1, [[2], [3]])
    assert (ended(query.rows), query.rows.running, query.rows.available(3, 5, WAIT_S)) == (None, False, 0)


def test_a_result_without_rows_has_ended_when_it_is_there() -> None:
    query = Query(None, None)
    query.tell("end")

    query.rows.begin()

    assert (query.rows.running, query.rows.page(0, 5), values(query.rows.encoded(0, 5, PageForm.ARROW))) == (
        False,
        [],
        [],
    )


def test_an_error_before_the_first_row_is_the_statements() -> None:
    query = Query(None, QueryFailed("[DIVIDE_BY_ZERO]"))

    with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
        query.rows.begin()

    assert not query.stopped.is_set()


@pytest.mark.parametrize("failure", [QueryFailed("[DIVIDE_BY_ZERO]"), EngineUnavailable("Spark went away.")])
def test_an_error_after_the_first_rows_comes_behind_them(failure: MtError) -> None:
    query = Query(batch(1), None)
    query.rows.begin()

    query.tell(failure)

    assert ended(query.rows) is failure
    assert query.rows.page(0, 1) == [[1]]
    with pytest.raises(type(failure)):
        query.rows.page(0, 2)
    for form in PageForm:
        with pytest.raises(type(failure)):
            query.rows.encoded(0, 2, form)


def test_close_stops_the_query_and_wakes_who_waits() -> None:
    query = Query(batch(1), None)
    query.rows.begin()
    waiter = threading.Thread(target=lambda: query.rows.available(1, 1, WAIT_S))
    waiter.start()

    query.rows.close()
    waiter.join(WAIT_S)

    assert (query.stopped.is_set(), waiter.is_alive(), query.rows.running) == (True, False, False)


def test_close_of_a_query_that_has_ended_stops_nothing() -> None:
    query = Query(batch(1))
    query.tell("end")
    query.rows.begin()

    query.rows.close()
    query.rows.close()

    assert not query.stopped.is_set()


def test_what_ends_a_query_first_is_what_readers_are_told() -> None:
    query, late = Query(batch(1), None), MtError("late")
    query.rows.begin()

    query.rows.abort(late)
    query.rows.abort(MtError("later"))

    assert ended(query.rows) is late
    with pytest.raises(MtError, match=r"^late$"):
        query.rows.page(1, 1)


def test_a_query_waits_for_its_reader_when_the_disk_it_may_use_is_full() -> None:
    query = Query(batch(1), None, batch(2), None, batch(3), spools=Spools(max_memory=0, max_disk=1))
    query.rows.begin()
    stalled = threading.Event()
    watcher = threading.Thread(target=lambda: _watch(query.rows, stalled))
    watcher.start()
    assert stalled.wait(WAIT_S)
    before = query.rows.available(0, 10, 0)

    query.rows.release(1)
    after = query.rows.available(1, 10, WAIT_S)
    query.rows.release(2)
    query.tell("end")
    assert query.rows.available(2, 10, WAIT_S) == 1

    assert (before, after, query.rows.page(2, 10)) == (1, 1, [[3]])
    assert (ended(query.rows), query.rows.stalled) == (None, False)
    query.rows.close()


def test_all_rows_of_a_job_that_has_run_are_taken_whatever_room_there_is() -> None:
    query = Query(batch(1), None, batch(2), batch(3), "end", spools=Spools(max_memory=0, max_disk=1))
    query.rows.begin()

    query.rows.release(1)
    error = ended(query.rows)

    assert (error, query.rows.page(1, 10)) == (None, [[2], [3]])
    query.rows.close()


def _watch(rows: StreamedRows, stalled: threading.Event) -> None:
    while not rows.stalled:
        rows.available(1, 1, 0.01)
    stalled.set()


def test_arrow_has_the_types_of_the_columns_and_instants_where_json_has_wall_clocks() -> None:
    fields = [
        spark.StructField("at", spark.TimestampType(), nullable=False, metadata={"comment": "when"}),
        spark.StructField("at", spark.DecimalType(5, 2)),
    ]
    form = ResultForm(spark.StructType(fields))
    part = pa.record_batch(
        [
            pa.array([0], pa.timestamp("us", "UTC")),
            pa.array([None], pa.decimal128(5, 2)),
            pa.array([3_600_000_000]).cast("timestamp[us]"),
        ],
        schema=form.schema,
    )

    table = pa.ipc.open_stream(form.stream([part])).read_all()

    assert form.rows([part]) == [["1970-01-01T01:00:00Z", None]]
    assert [(field.name, str(field.type), field.nullable, field.metadata) for field in table.schema] == [
        ("at", "timestamp[us, tz=UTC]", False, {b"comment": b"when"}),
        ("at", "decimal128(5, 2)", True, None),
    ]
    assert table.column(0)[0].value == 0
    assert form.rows([]) == []


def test_rows_without_end_come_late_and_keep_no_session_busy() -> None:
    query = Query()
    rows = StreamedRows(FORM, Spools().new(FORM.schema), query._batches(), query._stop, endless=True)

    rows.begin_in_background()
    before = rows.available(0, 1, 0), rows.running, rows.stalled
    query.tell(batch(1), None, None, batch(2))
    after = rows.page(0, 2), rows.running, rows.stalled
    rows.close()

    assert before == (0, True, True)
    assert after == ([[1], [2]], True, True)
    assert isinstance(ended(rows), Canceled)
    assert query.stopped.is_set()


def test_a_changelog_has_the_kind_of_each_row_in_all_forms_but_no_column_of_it() -> None:
    fields = [
        spark.StructField("at", spark.TimestampType()),
        spark.StructField("n", spark.LongType()),
        spark.StructField(ROW_KIND, spark.ByteType(), nullable=False),
    ]
    form = ResultForm(spark.StructType(fields), changelog=True)
    parts = [
        pa.record_batch(
            [
                pa.array([0] * len(codes), pa.timestamp("us", "UTC")),
                pa.array(codes, pa.int64()),
                pa.array(codes, pa.int8()),
                pa.array([0] * len(codes)).cast("timestamp[us]"),
            ],
            schema=form.schema,
        )
        for codes in ([0, 1], [2, 3, 0])
    ]
    query = Query(*parts, "end")
    rows = StreamedRows(form, Spools().new(form.schema), query._batches(), query._stop)
    rows.begin()

    table = table_of(rows, 5)
    body = json.loads(bytes(rows.encoded(0, 5, PageForm.JSON)))

    names = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "INSERT"]
    values = [["1970-01-01T00:00:00Z", n] for n in (0, 1, 2, 3, 0)]
    assert [column.name for column in rows.columns] == ["at", "n"]
    assert (rows.page(0, 5), [kind.name for kind in rows.kinds(0, 5)]) == (values, names)
    assert body == [{"kind": name, "fields": row} for name, row in zip(names, values, strict=True)]
    assert table.column_names == ["at", "n", ROW_KIND]
    assert table.column(2).to_pylist() == [0, 1, 2, 3, 0]
    assert table.schema.metadata[b"freshtable.row-kind"] == b"__row_kind"
    assert [column["name"] for column in json.loads(table.schema.metadata[b"freshtable.columns"])] == [
        "at",
        "n",
    ]
    assert (form.json([]), form.kinds([])) == (b"[]", [])


def test_rows_that_are_only_added_are_all_insertions() -> None:
    query = Query(batch(1, 2), "end")
    query.rows.begin()

    assert (query.rows.changelog, query.rows.kinds(1, 5)) == (False, [RowKind.INSERT])
