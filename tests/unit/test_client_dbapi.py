from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import httpx
import pyarrow as pa
import pytest

from mt_core.base.protocol import ARROW_TYPE
from mt_core.base.rowset import ROW_KIND, RowKind
from mt_core.client import dbapi
from mt_core.client.insert import ROWS_AT_ONCE, insert_batches
from mt_core.client.literals import ParameterCount, fill_in

SESSION = "20ee2ba8-3037-491e-a2ee-180d05966542"
TEXT = {"type": "VARCHAR", "nullable": True, "length": 2147483647}
PRICE = {"type": "DECIMAL", "nullable": False, "precision": 10, "scale": 2}


def page(
    columns: dict[str, Any], rows: list[list[Any]], next_token: int | None = None, **extras: Any
) -> dict[str, Any]:
    shown = [{"name": name, "logicalType": kind, "comment": None} for name, kind in columns.items()]
    body: dict[str, Any] = {
        "resultType": "EOS" if next_token is None else "PAYLOAD",
        "isQueryResult": True,
        "resultKind": "SUCCESS_WITH_CONTENT",
        "results": {
            "columns": shown,
            "rowFormat": "JSON",
            "data": [{"kind": "INSERT", "fields": row} for row in rows],
        },
    }
    if next_token is not None:
        body["nextResultUri"] = f"/v3/sessions/{SESSION}/operations/o/result/{next_token}?rowFormat=JSON"
    return {**body, **extras}


OK = page({"result": TEXT}, [["OK"]], isQueryResult=False, resultKind="SUCCESS")
NUMBERS = (
    page({"a": TEXT, "price": PRICE}, [["x", 1.5], ["y", 2]], 1),
    page({"a": TEXT, "price": PRICE}, [["z", 1e2]]),
)


class Server:
    """A gateway that answers results from a list and remembers what it was told."""

    def __init__(self, *results: dict[str, Any] | httpx.Response) -> None:
        self.results = list(results)
        self.calls: list[tuple[str, str]] = []
        self.statements: list[str] = []
        self.opened: dict[str, Any] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v3").replace(f"/{SESSION}", "")
        self.calls.append((request.method, path))
        if "/result/" in path:
            answer = self.results.pop(0)
            return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)
        if path == "/sessions" and request.method == "POST":
            self.opened = json.loads(request.content)
        if path == "/sessions/statements":
            self.statements.append(json.loads(request.content)["statement"])
        properties = {"table.local-time-zone": "Europe/Berlin"}
        return httpx.Response(
            200, json={"sessionHandle": SESSION, "operationHandle": "o", "properties": properties}
        )


def connect(server: Callable[[httpx.Request], httpx.Response], **options: Any) -> dbapi.Connection:
    return dbapi.connect("http://gw:8083", transport=httpx.MockTransport(server), **options)


def failing(code: str, text: str, status: int = 500, facts: dict[str, Any] | None = None) -> httpx.Response:
    block = (
        f"<Exception on server side:\nX: y\nCaused by: QueryFailed: {text}\n\tat f(g.py:1)\n\n"
        "End of exception on server side>"
    )
    body: dict[str, Any] = {"errors": ["Internal server error.", block]}
    if facts is not None:
        body["error"] = {"code": code, "message": text, "facts": facts}
    return httpx.Response(status, json=body, headers={"Freshtable-Error": code})


def test_the_module_says_what_it_is() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.Error, Exception)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        kind = getattr(dbapi, f"{name}Error")
        assert issubclass(kind, dbapi.DatabaseError)
        assert getattr(dbapi.Connection, f"{name}Error") is kind


def test_a_connection_is_a_session_with_its_catalog_schema_and_properties() -> None:
    server = Server(OK)

    with connect(server, catalog="lake", schema="my`s", properties={"k": "v"}):
        pass

    assert server.opened["properties"] == {"table.dml-sync": "true", "k": "v"}
    assert server.statements == ["USE `lake`.`my``s`"]
    assert server.calls[-1] == ("DELETE", "/sessions")


@pytest.mark.parametrize(
    ("catalog", "schema", "statements"),
    [(None, None, []), ("lake", None, ["SET CATALOG `lake`"]), (None, "s", ["USE `s`"])],
)
def test_only_what_is_given_is_chosen(catalog: str | None, schema: str | None, statements: list[str]) -> None:
    server = Server(OK)

    connect(server, catalog=catalog, schema=schema).close()

    assert server.statements == statements


def test_a_session_that_does_not_find_its_schema_is_closed_again() -> None:
    server = Server(failing("QUERY_FAILED", "[SCHEMA_NOT_FOUND] no. SQLSTATE: 42704"))

    with pytest.raises(dbapi.ProgrammingError, match="SCHEMA_NOT_FOUND"):
        connect(server, schema="s")

    assert server.calls[-1] == ("DELETE", "/sessions")


def test_rows_are_fetched_page_by_page_as_they_are_read() -> None:
    server = Server(*NUMBERS)
    cursor = connect(server).cursor()

    cursor.execute("SELECT a, price FROM t WHERE a > ?", ["o'x"])
    first = cursor.fetchone()
    pages_after_first = len(server.results)
    rest = cursor.fetchmany(1), cursor.fetchmany(), cursor.fetchmany(5), cursor.fetchone()

    assert server.statements == ["SELECT a, price FROM t WHERE a > 'o\\'x'"]
    assert cursor.description == [
        ("a", "VARCHAR", None, 2147483647, None, None, True),
        ("price", "DECIMAL", None, None, 10, 2, False),
    ]
    assert cursor.description[1][1] == dbapi.NUMBER != cursor.description[0][1] == dbapi.STRING
    assert first == ("x", Decimal("1.50"))
    assert pages_after_first == 1
    assert rest == ([("y", Decimal("2.00"))], [("z", Decimal("100.00"))], [], None)
    assert (cursor.rowcount, cursor.rownumber, cursor.arraysize) == (-1, 3, 1)


def test_a_cursor_is_iterated_and_lets_its_rows_go() -> None:
    server = Server(*NUMBERS)

    with connect(server).cursor() as cursor:
        names = [row[0] for row in cursor.execute("SELECT 1")]

    assert names == ["x", "y", "z"]
    assert server.calls[-1] == ("DELETE", "/sessions/operations/o/close")
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("SELECT 1")


@pytest.mark.parametrize(
    "answer",
    [OK, page({"job id": TEXT}, [["ab" * 16]], isQueryResult=False, jobID="ab" * 16)],
    ids=["ddl", "dml"],
)
def test_a_statement_without_rows_has_no_description(answer: dict[str, Any]) -> None:
    cursor = connect(Server(answer)).cursor()

    cursor.execute("INSERT INTO t VALUES (1)")

    assert (cursor.description, cursor.rowcount, cursor.job_id) == (None, -1, answer.get("jobID"))
    with pytest.raises(dbapi.ProgrammingError, match="no rows to fetch"):
        cursor.fetchall()


@pytest.mark.parametrize(
    ("code", "text", "kind", "error_class"),
    [
        ("QUERY_FAILED", "[DIVIDE_BY_ZERO] x SQLSTATE: 22012 (line 1)", "DataError", "DIVIDE_BY_ZERO"),
        ("QUERY_FAILED", "[A.B_C] x SQLSTATE: 42P01", "ProgrammingError", "A.B_C"),
        (
            "QUERY_FAILED",
            "[NOT_NULL_ASSERT_VIOLATION] x SQLSTATE: 42000",
            "IntegrityError",
            "NOT_NULL_ASSERT_VIOLATION",
        ),
        ("QUERY_FAILED", "[X] x SQLSTATE: 23505", "IntegrityError", "X"),
        (
            "QUERY_FAILED",
            "[UNSUPPORTED_FEATURE.X] x SQLSTATE: 0A000",
            "NotSupportedError",
            "UNSUPPORTED_FEATURE.X",
        ),
        ("QUERY_FAILED", "what it says", "ProgrammingError", None),
        ("UNSUPPORTED", "x", "NotSupportedError", None),
        ("INTERNAL", "x", "InternalError", None),
        ("CANCELED", "x", "OperationalError", None),
        ("ENGINE_UNAVAILABLE", "x", "OperationalError", None),
        ("SOMETHING_NEW", "x", "OperationalError", None),
    ],
)
def test_a_failure_is_the_exception_of_its_kind_with_both_codes(
    code: str, text: str, kind: str, error_class: str | None
) -> None:
    cursor = connect(Server(failing(code, text))).cursor()

    with pytest.raises(dbapi.DatabaseError) as failure:
        cursor.execute("SELECT 1")

    assert type(failure.value).__name__ == kind
    assert (str(failure.value), failure.value.code, failure.value.error_class) == (text, code, error_class)


@pytest.mark.parametrize(
    ("text", "facts", "kind"),
    [
        ("[X] x", {"error_class": "X", "sqlstate": "22012"}, dbapi.DataError),
        (
            "[X] a text of the user: SQLSTATE: 23505",
            {"error_class": "X", "sqlstate": "42703"},
            dbapi.ProgrammingError,
        ),
        ("[X] without the fact SQLSTATE: 22012", {"error_class": "X"}, dbapi.DataError),
    ],
)
def test_the_sqlstate_of_an_error_is_a_fact_of_it_before_it_is_a_part_of_its_text(
    text: str, facts: dict[str, Any], kind: type[dbapi.Error]
) -> None:
    cursor = connect(Server(failing("QUERY_FAILED", text, facts=facts))).cursor()

    with pytest.raises(dbapi.DatabaseError) as failure:
        cursor.execute("SELECT 1")

    assert (type(failure.value), failure.value.error_class) == (kind, "X")


def test_a_gateway_that_is_away_is_an_operational_error() -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(dbapi.OperationalError, match="There is no gateway at http://gw:8083") as failure:
        connect(away)

    assert failure.value.code == "GATEWAY_FAILED"


@pytest.mark.parametrize(
    ("statement", "parameters", "kind"),
    [
        ("SELECT ?", [], dbapi.ProgrammingError),
        ("SELECT ?", [object()], dbapi.ProgrammingError),
        ("SELECT 'a", None, dbapi.ProgrammingError),
        ("SELECT ?", [10**40], dbapi.DataError),
        ("/* x */ set time zone 'UTC'", None, dbapi.NotSupportedError),
    ],
)
def test_what_cannot_be_sent_is_refused_before_it_is(
    statement: str, parameters: list[Any] | None, kind: type[dbapi.Error]
) -> None:
    server = Server()

    with pytest.raises(kind):
        connect(server).cursor().execute(statement, parameters)

    assert server.statements == []


def test_there_are_no_transactions() -> None:
    connection = connect(Server())

    connection.commit()

    with pytest.raises(dbapi.NotSupportedError, match="no transactions"):
        connection.rollback()


def test_a_closed_connection_is_of_no_more_use() -> None:
    server = Server()
    connection = connect(server)
    cursor = connection.cursor()

    connection.close()
    connection.close()

    assert [method for method, path in server.calls if path == "/sessions"] == ["POST", "DELETE"]
    for use in (connection.cursor, connection.commit, connection.ping, lambda: cursor.execute("SELECT 1")):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            use()


def test_an_interrupted_statement_is_cancelled_on_the_gateway() -> None:
    class Interrupted(Server):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            if "/result/" in request.url.path:
                raise KeyboardInterrupt
            return super().__call__(request)

    server = Interrupted()

    with pytest.raises(KeyboardInterrupt):
        connect(server).cursor().execute("SELECT 1")

    assert server.calls[-1] == ("POST", "/sessions/operations/o/cancel")


def test_the_rows_that_are_left_come_as_arrow_and_as_a_frame_also_from_a_gateway_without_arrow() -> None:
    server = Server(NUMBERS[0], *NUMBERS, NUMBERS[0], *NUMBERS)
    cursor = connect(server).cursor()

    cursor.execute("SELECT 1").fetchone()
    table = cursor.fetch_arrow()
    frame = cursor.execute("SELECT 1").fetch_df()

    assert table.to_pylist() == [{"a": "y", "price": Decimal("2.00")}, {"a": "z", "price": Decimal("100.00")}]
    assert [str(kind) for kind in table.schema.types] == ["string", "decimal128(10, 2)"]
    assert list(frame["a"]) == ["x", "y", "z"]


def streamed(table: pa.Table, next_token: int | None) -> httpx.Response:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata({"freshtable.columns": "[]"})) as writer:
        writer.write_table(table)
    headers = {
        "Content-Type": ARROW_TYPE,
        "Freshtable-Result-Type": "EOS" if next_token is None else "PAYLOAD",
    }
    if next_token is not None:
        headers["Freshtable-Next-Result-Uri"] = f"/v3/sessions/{SESSION}/operations/o/result/{next_token}"
    return httpx.Response(200, content=sink.getvalue().to_pybytes(), headers=headers)


def test_the_page_being_read_is_asked_for_again_as_arrow_and_only_its_rows_that_are_left_come() -> None:
    tables = [pa.table({"a": ["x", "y"]}), pa.table({"a": ["z"]}), pa.table({"a": pa.array([], pa.string())})]
    first = page({"a": TEXT}, [["x"], ["y"]], 1)
    not_ready = streamed(tables[2], 1)
    not_ready.headers["Freshtable-Result-Type"] = "NOT_READY"
    server = Server(
        first, streamed(tables[0], 1), not_ready, streamed(tables[1], 2), streamed(tables[2], None)
    )
    cursor = connect(server).cursor()
    cursor.execute("SELECT 1").fetchone()

    batches = list(cursor.fetch_arrow_batches())

    assert [batch.to_pylist() for batch in batches] == [[{"a": "y"}], [{"a": "z"}]]
    assert [path.rpartition("/")[2] for _, path in server.calls if "/result/" in path] == [
        "0",
        "0",
        "1",
        "1",
        "2",
    ]
    assert (cursor.rownumber, cursor.fetchall(), batches[0].schema.metadata) == (3, [], None)


def test_an_error_in_the_middle_of_arrow_pages_is_one_of_the_standard() -> None:
    table = pa.table({"a": ["x"]})
    server = Server(
        page({"a": TEXT}, [["x"]], 1), streamed(table, 1), failing("ENGINE_UNAVAILABLE", "Spark went away.")
    )
    cursor = connect(server).cursor().execute("SELECT 1")

    with pytest.raises(dbapi.OperationalError, match="Spark went away"):
        cursor.fetch_arrow()


@pytest.mark.parametrize(("method", "package"), [("fetch_arrow", "pyarrow"), ("fetch_df", "pandas")])
def test_a_missing_package_is_named_and_no_row_is_lost(
    method: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for module in ("arrow", "arrow_rows"):
        monkeypatch.delitem(sys.modules, f"mt_core.client.{module}", raising=False)
    cursor = connect(Server(*NUMBERS)).cursor()
    cursor.execute("SELECT 1")

    with pytest.raises(dbapi.NotSupportedError, match=f"{package}.*pip install"):
        getattr(cursor, method)()

    assert len(cursor.fetchall()) == 3


# ----------------------------------------------------------------------------------------------- many inserts


def filled(statement: str, rows: list[list[int]]) -> Iterator[str]:
    return (fill_in(text, parameters) for text, parameters in insert_batches(statement, rows))


def test_rows_are_inserted_many_at_once() -> None:
    statement = "INSERT INTO t (a, b) VALUES (?, coalesce(?, 0)) -- done"

    assert list(filled(statement, [[1, 2], [3, 4]])) == [
        "INSERT INTO t (a, b) VALUES (1, coalesce(2, 0)), (3, coalesce(4, 0)) -- done"
    ]
    assert len(list(filled(statement, [[1, 2]] * (ROWS_AT_ONCE + 1)))) == 2
    assert list(filled(statement, [])) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET a = ?",
        "INSERT INTO t SELECT ?",
        "INSERT INTO t VALUES (?), (1)",
        "INSERT INTO t PARTITION (p = ?) VALUES (1)",
        "INSERT INTO t REPLACE WHERE a = ? VALUES (1)",
    ],
)
def test_any_other_statement_runs_once_for_each_row(statement: str) -> None:
    assert list(filled(statement, [[1], [2]])) == [statement.replace("?", "1"), statement.replace("?", "2")]


def test_a_row_of_another_length_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ParameterCount, match=r"1 marker .* row 1 has 2 values"):
        insert_batches("INSERT INTO t VALUES (?)", [[1], [2, 3]])


COUNTS = {"a": TEXT, "price": PRICE}
CHANGES = [
    (RowKind.INSERT, ("x", Decimal("1.00"))),
    (RowKind.UPDATE_BEFORE, ("x", Decimal("1.00"))),
    (RowKind.UPDATE_AFTER, ("x", Decimal("2.00"))),
    (RowKind.DELETE, ("x", Decimal("2.00"))),
]


def changelog(
    *changes: tuple[RowKind, tuple[Any, ...]], next_token: int | None = None, **extras: Any
) -> dict[str, Any]:
    body = page(COUNTS, [[row[0], float(row[1])] for _, row in changes], next_token, **extras)
    for data, (kind, _) in zip(body["results"]["data"], changes, strict=True):
        data["kind"] = kind.name
    return body


@pytest.mark.parametrize("arrow", [True, False])
def test_changes_come_with_their_kinds(arrow: bool) -> None:
    prices, types = [row[1] for _, row in CHANGES[2:]], {"price": pa.decimal128(10, 2), ROW_KIND: pa.int8()}
    second = pa.table(
        {"a": ["x", "x"], "price": pa.array(prices, types["price"]), ROW_KIND: pa.array([2, 3], pa.int8())}
    )
    others = [streamed(second, 2), streamed(second.slice(0, 0), None)]
    if not arrow:
        others = [changelog(*CHANGES[2:], next_token=2, changelog=True), changelog(changelog=True)]
    server = Server(changelog(*CHANGES[:2], next_token=1, changelog=True), *others)

    cursor = connect(server).cursor().execute("SELECT 1")

    assert cursor.is_changelog
    assert [column.name for column in cursor.columns] == ["a", "price"]
    assert list(cursor.fetch_changes()) == CHANGES
    assert cursor.rownumber == 4


def test_rows_that_are_only_added_are_changes_too() -> None:
    cursor = connect(Server(*NUMBERS)).cursor().execute("SELECT 1")

    assert not cursor.is_changelog
    assert [(kind, row[0]) for kind, row in cursor.fetch_changes()] == [
        (RowKind.INSERT, each) for each in "xyz"
    ]


@pytest.mark.parametrize(
    "method",
    ["fetchone", "fetchmany", "fetchall", "fetch_arrow", "fetch_df", "fetch_arrow_batches", "__iter__"],
)
def test_a_changelog_is_not_read_as_if_its_rows_were_only_added(method: str) -> None:
    cursor = connect(Server(changelog(next_token=1, changelog=True))).cursor().execute("SELECT 1")

    with pytest.raises(dbapi.NotSupportedError, match=r"change earlier ones.* fetch_changes\(\)"):
        next(iter(getattr(cursor, method)()))


def test_a_changelog_that_is_not_called_one_is_refused_where_its_first_change_is() -> None:
    server = Server(changelog(CHANGES[0], next_token=1), changelog(*CHANGES[1:3]))
    cursor = connect(server).cursor().execute("SELECT 1")

    assert cursor.fetchone() == CHANGES[0][1]
    with pytest.raises(dbapi.NotSupportedError, match="change earlier ones"):
        cursor.fetchone()


def test_the_next_statement_of_a_cursor_is_no_changelog_for_the_last_one_was() -> None:
    cursor = connect(Server(changelog(changelog=True), *NUMBERS)).cursor()

    cursor.execute("SELECT 1")
    cursor.execute("SELECT 2")

    assert (cursor.is_changelog, cursor.fetchone()) == (False, ("x", Decimal("1.50")))


def test_a_changelog_as_json_is_an_arrow_table_with_its_kinds() -> None:
    client = connect(Server(changelog(*CHANGES[:3], changelog=True))).client

    table = client.fetch_arrow(client.execute("SELECT 1"))

    assert table.column_names == ["a", "price", ROW_KIND]
    assert table.column(ROW_KIND).to_pylist() == [0, 1, 2]
