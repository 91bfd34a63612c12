"""Copying rows from a view to a file or to the clipboard."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path

from mt_core.client.pages import ResultPage
from mt_core.errors import ConfigError
from mt_core.terminal.output.columnar_file import ColumnarFile
from mt_core.terminal.output.form import Form
from mt_core.terminal.output.lines import print_delimited
from mt_core.terminal.output.replaced_file import replacing
from mt_core.terminal.output.result import print_result
from mt_core.terminal.viewer.live_result import Snapshot

_ROWS_AT_ONCE = 1_000
_POLL_S = 0.05
# xterm accepts 100,000 bytes, and base64 makes the text a third longer.
MOST_COPIED_BYTES = 74_994
FORMS = {
    **{f".{form}": form for form in (Form.CSV, Form.TSV, Form.JSON, Form.JSONL, Form.PARQUET, Form.ARROW)},
    ".md": Form.MARKDOWN,
}

Properties = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRows:
    """The rows of `snapshot` at the positions in `order`, or all rows if it is None."""

    snapshot: Snapshot
    order: Sequence[int] | None = None

    @property
    def count(self) -> int:
        return self.snapshot.count if self.order is None else len(self.order)

    def pages(self, size: int = _ROWS_AT_ONCE) -> Iterator[ResultPage]:
        """Yield pages of *size* rows, at least one page."""
        for begin in range(0, max(1, self.count), size):
            stop = min(begin + size, self.count)
            rows = (
                self.snapshot.rows(begin, stop)
                if self.order is None
                else self.snapshot.pick(self.order[begin:stop])
            )
            yield ResultPage(
                columns=tuple(self.snapshot.columns),
                rows=list(map(list, rows)),
                is_query=True,
                has_content=True,
            )

    def saved(self, name: str, properties: Properties, on_file: Callable[[Path], object]) -> Generator[int]:
        """Write the rows to a new file, in the format given by the suffix of *name*.

        Yield the number of rows written, every 50 ms. *properties* returns those of the session. The file
        appears when it is complete, and *on_file* is then called. If the generator is closed earlier, the
        file is discarded. Raises ConfigError, and Unsupported for a value that the format cannot represent.
        """
        path, form = _new_file(name)
        stopped, written = threading.Event(), [0]

        def counted() -> Iterator[ResultPage]:
            for page in self.pages():
                yield page
                if stopped.is_set():
                    raise _Stopped
                written[0] += len(page.rows)

        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="save") as pool:
            writing = pool.submit(_write, path, form, counted(), properties)
            try:
                while wait([writing], _POLL_S).not_done:
                    yield written[0]
            finally:
                stopped.set()
                # The file may have been completed before the generator was closed.
                if writing.exception() is None:
                    on_file(path)
        writing.result()

    def copied(self) -> tuple[bytes, int]:
        """Return the rows that fit in the clipboard and their number.

        The rows are text in the form of `--format tsv`.
        """
        text = BytesIO()
        taken = end = 0

        def fitting() -> Iterator[ResultPage]:
            nonlocal taken, end
            for page in self.pages(1):
                yield page
                if text.tell() > MOST_COPIED_BYTES:
                    return
                taken, end = taken + len(page.rows), text.tell()

        out = TextIOWrapper(text, encoding="utf-8", newline="", write_through=True)
        print_delimited(fitting(), out, tabs=True)
        return text.getvalue()[:end], taken


def clipboard_sequence(text: bytes) -> str:
    """Return the escape sequence (OSC 52) that copies *text* to the clipboard."""
    return f"\x1b]52;c;{b64encode(text).decode('ascii')}\x07"


def _new_file(name: str) -> tuple[Path, Form]:
    """Return the path for *name* and its format.

    Raises ConfigError, including for a name that the operating system rejects.
    """
    try:
        path = Path(name).expanduser()
        is_taken = path.resolve().exists()
    except (OSError, RuntimeError, ValueError) as cause:
        raise ConfigError(f"{name} cannot be written: {cause}") from cause
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise ConfigError(f"'{path.name}' has no known suffix; use one of {', '.join(FORMS)}.")
    if is_taken:
        raise ConfigError(f"{path} already exists; choose another name.")
    return path, form


def _write(path: Path, form: Form, pages: Iterator[ResultPage], properties: Properties) -> None:
    if form.is_columnar:
        ColumnarFile(path, form).write_pages(pages, properties, lambda _count: None)
        return
    with replacing(path) as new_file, new_file.open("w", encoding="utf-8", newline="") as out:
        print_result(pages, form, out)


class _Stopped(Exception):
    """Raised to stop writing a file that is no longer wanted."""
