"""The results of a benchmark: tables, printed on the terminal and written as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target, the measured value, and whether it meets the target."""

    asked: str
    measured: str
    met: bool

    @property
    def verdict(self) -> str:
        return "met" if self.met else "MISSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One table with its title, the targets that it checks, and what a reader must know to trust it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    targets: Sequence[Target] = field(default_factory=tuple)
    notes: Sequence[str] = field(default_factory=tuple)

    def print_to(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        for target in self.targets:
            colour = "green" if target.met else "red"
            text = f"{target.verdict}: {target.measured}; asked for: {target.asked}"
            console.print(f"[{colour}]{escape(text)}[/{colour}]")
        for note in self.notes:
            console.print(f"[dim]{escape(note)}[/dim]")
        console.print()

    def markdown(self) -> str:
        head = [f"### {self.title}", "", _line(self.columns), "|---|" + "---:|" * (len(self.columns) - 1)]
        body = [_line(row) for row in self.rows]
        targets = [f"- **{each.verdict}**: {each.measured}; asked for: {each.asked}" for each in self.targets]
        return "\n".join([*head, *body, "", *targets, *(f"- {note}" for note in self.notes), ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
