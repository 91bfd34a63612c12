"""`python -m benchmarks [name …]`: measures and prints the tables.

Without names, it runs all benchmarks except those of `BY_NAME` and writes the tables to results.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import (
    airflow,
    batches,
    continuous,
    ctas,
    fixed_cost,
    full_refresh,
    gateway_calls,
    incremental,
    long_statement,
    many_continuous,
    object_store,
    operator_states,
    operators,
    overview,
    results_transfer,
    scheduler,
    sql_client,
    startup,
    statement_overhead,
    streams,
    thrift,
    tpch,
    unchanged,
)
from benchmarks.filled_registry import Filling
from benchmarks.machine import Machine
from benchmarks.report import Finding
from benchmarks.tpch import TpchOptions

RESULTS = Path(__file__).parent / "results.md"
BENCHMARKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "full_refresh": full_refresh.measure,
    "fixed_cost": fixed_cost.measure,
    "incremental": incremental.measure,
    "continuous": continuous.measure,
    "batches": batches.measure,
    "many_continuous": many_continuous.measure,
    "streams": streams.measure,
    "operators": operators.measure,
    "operator_states": operator_states.measure,
    "ctas": ctas.measure,
    "unchanged": unchanged.measure,
    "statement_overhead": statement_overhead.measure,
    "long_statement": long_statement.measure,
    "gateway_calls": gateway_calls.measure,
    "thrift": thrift.measure,
    "results_transfer": results_transfer.measure,
    "scheduler": scheduler.measure,
    "sql_client": sql_client.measure,
    "startup": startup.measure,
    "airflow": airflow.measure,
}

# They take too long to run with the others, or need more than `make bench` installs.
BY_NAME: Mapping[str, Callable[[argparse.Namespace], Iterator[Finding]]] = {
    "overview": lambda given: overview.measure(Filling(tables=given.tables, runs=given.runs)),
    "object_store": lambda _given: object_store.measure(),
    "tpch": lambda given: tpch.measure(
        TpchOptions(
            lineitems=given.lineitems,
            queries=tuple(given.queries),
            strategy=given.strategy,
            shares=tuple(given.shares),
        )
    ),
}

FULL, TPCH = Filling(), TpchOptions()


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks with these names, or all that need no name, and return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and print tables.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tables", type=int, default=FULL.tables, help="of overview (%(default)s)")
    parser.add_argument("--runs", type=int, default=FULL.runs, help="of each of them (%(default)s)")
    parser.add_argument("--lineitems", type=int, default=TPCH.lineitems, help="of tpch (%(default)s)")
    parser.add_argument("--queries", nargs="*", default=TPCH.queries, metavar="QUERY", help="of tpch (all)")
    parser.add_argument("--strategy", default=TPCH.strategy, help="of tpch, compared with full (%(default)s)")
    parser.add_argument(
        "--shares", nargs="*", type=float, default=TPCH.shares, help="of changed rows, of tpch (%(default)s)"
    )
    options = parser.parse_args(arguments)
    benchmarks = BENCHMARKS | {name: partial(measure, options) for name, measure in BY_NAME.items()}
    names: Sequence[str] = options.names
    if unknown := sorted(set(names) - set(benchmarks)):
        sys.stderr.write(f"There is no benchmark {unknown[0]}; there are {', '.join(benchmarks)}.\n")
        return 2
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    machine = Machine.look()
    found = {name: _run(name, benchmarks[name], console) for name in (names or BENCHMARKS)}
    console.print(machine.markdown())
    if not names:
        RESULTS.write_text(_markdown(machine, found), encoding="utf-8")
        console.print(f"Written to {RESULTS}.")
    return 0


def _run(name: str, measure: Callable[[], Iterator[Finding]], console: Console) -> list[Finding]:
    console.rule(name)
    findings = []
    for finding in measure():
        finding.print_to(console)
        findings.append(finding)
    return findings


def _markdown(machine: Machine, found: Mapping[str, Sequence[Finding]]) -> str:
    parts = ["# Benchmark results", "", "Written by `make bench`; README.md says how each is measured.", ""]
    parts += ["## Machine", "", machine.markdown(), ""]
    for name, findings in found.items():
        parts += [f"## {name}", "", *(finding.markdown() for finding in findings)]
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
