"""A columnar file: the rows of one query as Arrow or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt_core.base.extras import requiring
from mt_core.client.values import UnreadableValue
from mt_core.errors import ConfigError, Unsupported
from mt_core.terminal.output.form import Form
from mt_core.terminal.output.replaced_file import replacing

if TYPE_CHECKING:
    import pyarrow as pa

    from mt_core.client.http import GatewayClient
    from mt_core.client.pages import ResultPage


class ColumnarFile:
    """The file at *path*, which all rows of a query replace. If the query fails, the file is unchanged."""

    def __init__(self, path: Path, form: Form) -> None:
        with requiring("client", f"--format {form}"):
            import pyarrow  # noqa: F401 - without it no statement should run
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"{path}: there is no folder {path.absolute().parent}.")
        self.path, self.written = path, False
        self._open = _arrow_writer if form is Form.ARROW else _parquet_writer

    def write(self, client: GatewayClient, operation: str, on_rows: Callable[[int], object]) -> int:
        """Write the rows of a query, with one page in memory at a time, and return their number.

        After each page, *on_rows* is called with the number of rows so far. Raises Unsupported for a second
        query.
        """
        if self.written:
            raise Unsupported(
                f"{self.path} already has the rows of another query; write each query to its own file."
            )
        count = self.write_pages(client.arrow_pages(operation), client.properties, on_rows)
        self.written = True
        return count

    def write_pages(
        self,
        pages: Iterable[pa.Table | ResultPage],
        properties: Callable[[], Mapping[str, str]],
        on_rows: Callable[[int], object],
    ) -> int:
        """Write *pages* and return their number of rows. *properties* returns those of the session.

        Calls *on_rows* with the row count after each page. Raises Unsupported for a value that cannot be
        written.
        """
        from mt_core.client.arrow import as_tables

        count = 0
        with replacing(self.path) as new_file, ExitStack() as stack:
            writer = None
            try:
                for table in as_tables(pages, properties):
                    writer = writer or stack.enter_context(self._open(str(new_file), table.schema))
                    writer.write_table(table)
                    count += table.num_rows
                    on_rows(count)
            except UnreadableValue as cause:
                raise Unsupported(str(cause)) from cause
        return count


def _arrow_writer(path: str, schema: Any) -> Any:
    import pyarrow as pa

    return pa.ipc.new_file(path, schema)


def _parquet_writer(path: str, schema: Any) -> Any:
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(path, schema)
