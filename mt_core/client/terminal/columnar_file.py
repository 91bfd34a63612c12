"""A columnar file: the rows of one query as Arrow or Parquet, for programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt_core.client.terminal.form import Form
from mt_core.client.values import UnreadableValue
from mt_core.errors import ConfigError, Unsupported
from mt_core.extras import requiring

if TYPE_CHECKING:
    from mt_core.client.http import GatewayClient


class ColumnarFile:
    """The file at *path*, which is there with all rows of a query, or as it was before."""

    def __init__(self, path: Path, form: Form) -> None:
        with requiring("client", f"--format {form}"):
            import pyarrow  # noqa: F401 - without it no statement should run
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"-o {path}: there is no folder {path.absolute().parent}.")
        self.path, self.written = path, False
        self._open = _arrow_writer if form is Form.ARROW else _parquet_writer

    def write(self, client: GatewayClient, operation: str) -> int:
        """Write the rows of a query with a page in memory at a time; return their number. Raises Unsupported for a second query."""
        from mt_core.client.arrow import as_tables

        if self.written:
            raise Unsupported(f"{self.path} has the rows of the query before; write each query to a file of its own.")
        count = 0
        with _replacing(self.path) as beside, ExitStack() as stack:
            writer = None
            try:
                for table in as_tables(client.arrow_pages(operation), client.properties):
                    writer = writer or stack.enter_context(self._open(str(beside), table.schema))
                    writer.write_table(table)
                    count += table.num_rows
            except UnreadableValue as cause:
                raise Unsupported(str(cause)) from cause
        self.written = True
        return count


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give the path of a file beside *path*, which takes its place at the end of the block, and is removed after an error."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(path)
    except OSError as cause:
        raise ConfigError(f"-o {path} cannot be written: {cause}") from cause
    finally:
        beside.unlink(missing_ok=True)


def _arrow_writer(path: str, schema: Any) -> Any:
    import pyarrow as pa

    return pa.ipc.new_file(path, schema)


def _parquet_writer(path: str, schema: Any) -> Any:
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(path, schema)
