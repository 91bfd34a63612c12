"""Refresh, suspend, resume and verify a table.

A refresh is requested as schedulers do, because that needs no Spark and returns the refresh at once. The
other actions are statements.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from mt_core.base.identifiers import sql_name
from mt_core.base.plural import plural
from mt_core.errors import RequestInvalid, TableNotFound
from mt_core.gateway.page.actions.forms import ActionForm, CheckField, Done, InputField, Outcome
from mt_core.gateway.page.actions.statements import run_statement
from mt_core.gateway.page.formats import count_text
from mt_core.gateway.page.visitor import Visitor
from mt_core.gateway.services import GatewayServices
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.table_commands import RefreshRequest

KEY = "key"
# Within this time, VERIFY refuses a table that it cannot compare.
VERIFY_WAIT_S = 1.0
_PARTITION = "partition."
_SKIP_MISSED, _PERCENT = "skip-missed", "percent"
_NUMBER = re.compile(r"\d{1,3}(\.\d{1,6})?")


class TableAction(StrEnum):
    """What a visitor can do with a table; it is the last part of the form's address."""

    REFRESH = "refresh"
    SUSPEND = "suspend"
    RESUME = "resume"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOnTable:
    """One of the actions on tables."""

    services: GatewayServices
    action: TableAction

    def form(self, table_id: str, sent: Mapping[str, str]) -> ActionForm:
        table = self._table(table_id)
        match self.action:
            case TableAction.REFRESH:
                return self._refresh_form(table, sent)
            case TableAction.SUSPEND:
                return self._suspend_form(table)
            case TableAction.RESUME:
                return self._resume_form(table, sent)
            case TableAction.VERIFY:
                return self._verify_form(table, sent)

    def perform(self, table_id: str, sent: Mapping[str, str], visitor: Visitor) -> Outcome:
        table = self._table(table_id)
        name = sql_name(table.identifier.parts)
        match self.action:
            case TableAction.REFRESH:
                return self._refresh(table, sent, visitor)
            case TableAction.SUSPEND:
                statement, ended, begun = "SUSPEND", Done.SUSPENDED, Done.SUSPENDING
            case TableAction.RESUME:
                options = " WITH ('catch-up' = 'none')" if _SKIP_MISSED in sent else ""
                statement, ended, begun = f"RESUME{options}", Done.RESUMED, Done.RESUMING
            case TableAction.VERIFY:
                statement = f"VERIFY MATERIALIZED TABLE {name}{_sample(sent)}"
                has_ended = run_statement(self.services, statement, visitor, wait_s=VERIFY_WAIT_S)
                return Outcome.of(_path(table), Done.VERIFIED if has_ended else Done.VERIFYING)
        has_ended = run_statement(self.services, f"ALTER MATERIALIZED TABLE {name} {statement}", visitor)
        return Outcome.of(_path(table), ended if has_ended else begun)

    def _refresh(self, table: MaterializedTable, sent: Mapping[str, str], visitor: Visitor) -> Outcome:
        partitions = {
            column: value for column in table.definition.partition_keys if (value := sent.get(_field(column)))
        }
        run = self.services.runs.request_refresh(
            RefreshRequest(
                identifier_text=sql_name(table.identifier.parts),
                is_periodic=False,
                static_partitions=partitions,
                table_id=table.table_id,
                request_key=_request_key(sent.get(KEY, ""), partitions),
                requested_by=visitor.name or None,
            )
        )
        return Outcome.of(_path(table), Done.REQUESTED, run=run.run_id)

    # ------------------------------------------------------------------------------------------------- forms

    def _empty_form(self, table: MaterializedTable, button: str) -> ActionForm:
        return ActionForm(
            title=self.action.capitalize(),
            subject=str(table.identifier),
            path=f"{_path(table)}/{self.action}",
            back=_path(table),
            button=button,
        )

    def _refresh_form(self, table: MaterializedTable, sent: Mapping[str, str]) -> ActionForm:
        keys, effects = table.definition.partition_keys, list[str]()
        if keys:
            effects.append(
                "The rows of the partitions are computed from the sources as they are when the refresh "
                "begins, even if nothing has changed. Leave all fields empty to refresh the whole table."
            )
        else:
            effects.append(
                "All rows are computed from the sources as they are when the refresh begins, "
                "even if nothing has changed."
            )
        facts, warnings = self._facts(table), self._trouble("The refresh waits until Spark accepts work")
        if facts is not None and facts.queued:
            number = facts.queued
            effects.append(
                f"{count_text(number, 'refresh', 'refreshes')} of this table "
                f"{plural(number, 'waits', 'wait')} already, and may also do the work of this one."
            )
        if facts is not None and facts.running:
            effects.append("A refresh of this table is running. This one begins after it.")
        if table.status is RefreshStatus.SUSPENDED:
            effects.append("The table stays suspended: this is its only refresh until it is resumed.")
        return replace(
            self._empty_form(table, "Refresh now"),
            effects=tuple(effects),
            warnings=warnings,
            inputs=tuple(
                InputField(
                    name=_field(key), label=key, hint=_hint(table, key), value=sent.get(_field(key), "")
                )
                for key in keys
            ),
            refusal=_streamed(table, "A refresh"),
        )

    def _suspend_form(self, table: MaterializedTable) -> ActionForm:
        readers = self._readers(table)
        effects = [
            "The table is not refreshed until it is resumed: it keeps its rows, which become stale. "
            "A refresh that is running completes."
        ]
        if table.definition.streams:
            effects = [
                "The streaming job that maintains the table stops after its current batch. "
                "Its position in the sources is kept."
            ]
        if readers:
            effects.append(
                f"{count_text(readers, 'materialized table reads', 'materialized tables read')} it "
                f"and {plural(readers, 'becomes', 'become')} stale with it."
            )
        already = table.status is RefreshStatus.SUSPENDED
        return replace(
            self._empty_form(table, "Suspend"),
            effects=tuple(effects),
            warnings=self._trouble("The statement waits until Spark accepts work"),
            is_dangerous=True,
            refusal=f"The table is suspended already, by {table.status_by}." if already else "",
        )

    def _resume_form(self, table: MaterializedTable, sent: Mapping[str, str]) -> ActionForm:
        effects = ["The table is refreshed on its schedule again."]
        checks: tuple[CheckField, ...] = ()
        if table.definition.streams:
            effects = ["The streaming job that maintains the table continues where it stopped."]
        elif table.definition.refresh_mode is RefreshMode.CONTINUOUS:
            effects = ["The table is refreshed again whenever its sources change."]
        else:
            effects.append("The schedule times that were missed are refreshed now.")
            checks = (
                CheckField(
                    name=_SKIP_MISSED,
                    label="Skip the schedule times that were missed",
                    hint="The next refresh is then the one at the next schedule time.",
                    checked=_SKIP_MISSED in sent,
                ),
            )
        if table.status is RefreshStatus.SUSPENDED and table.status_reason:
            effects.append(
                f"It was suspended by {table.status_by}: {table.status_reason} If the cause persists, it "
                "will be suspended again."
            )
        # RESUME of an active table repairs its storage and workflow, and ends a doubt.
        return replace(
            self._empty_form(table, "Resume"),
            effects=tuple(effects),
            warnings=self._trouble("The statement waits until Spark accepts work"),
            checks=checks,
        )

    def _verify_form(self, table: MaterializedTable, sent: Mapping[str, str]) -> ActionForm:
        return replace(
            self._empty_form(table, "Compare"),
            effects=(
                "The query runs again on the source versions from which the rows were computed, and its "
                "result is compared with them. No row is changed.",
                "This costs about as much as a refresh of the whole table.",
            ),
            warnings=self._trouble("The statement waits until Spark accepts work"),
            inputs=(
                InputField(
                    name=_PERCENT,
                    label="Sample",
                    hint="percent of the keys; empty: all rows",
                    value=sent.get(_PERCENT, ""),
                ),
            ),
            refusal=_streamed(table, "VERIFY"),
        )

    # ------------------------------------------------------------------------------------------------- facts

    def _table(self, table_id: str) -> MaterializedTable:
        with self.services.facts.reading() as tx:
            table = tx.tables.get(table_id)
        if table is None:
            raise TableNotFound(
                f"There is no materialized table with the id {table_id}; it may have been dropped."
            )
        return table

    def _facts(self, table: MaterializedTable) -> TableFacts | None:
        overview = self.services.facts.overview
        return overview.table(table.table_id, overview.now())

    def _readers(self, table: MaterializedTable) -> int:
        """Return the number of materialized tables that read *table* directly."""
        overview, name = self.services.facts.overview, str(table.identifier)
        return sum(
            any(read.name == name for read in each.reads)
            for each in overview.facts(overview.now())
            if isinstance(each, TableFacts)
        )

    def _trouble(self, consequence: str) -> tuple[str, ...]:
        trouble = self.services.engine_trouble()
        return (f"{consequence}: {trouble}",) if trouble else ()


def _request_key(key: str, partitions: Mapping[str, str]) -> str | None:
    """Return the idempotency key of what a form asks for: another one for other partitions."""
    return hashlib.sha256(f"{key} {sorted(partitions.items())}".encode()).hexdigest()[:32] if key else None


def _path(table: MaterializedTable) -> str:
    return f"/tables/{table.table_id}"


def _field(column: str) -> str:
    return f"{_PARTITION}{column}"


def _hint(table: MaterializedTable, column: str) -> str:
    pattern = table.definition.declared_formatters.get(column)
    return f"such as {pattern}" if pattern else "one value; empty: all"


def _streamed(table: MaterializedTable, what: str) -> str:
    if not table.definition.streams:
        return ""
    return (
        f"{what} is not possible: a streaming job maintains the table, and its source does not retain "
        "the rows. Suspend and resume stop and continue the job."
    )


def _sample(sent: Mapping[str, str]) -> str:
    """Return the clause SAMPLE for the field of the form; "" for all rows. Raises RequestInvalid."""
    text = sent.get(_PERCENT, "").strip().removesuffix("%").strip()
    if not text:
        return ""
    if _NUMBER.fullmatch(text) is None or not 0 < float(text) <= 100:
        raise RequestInvalid(f"Sample must be a number above 0 and up to 100, or empty, not '{text[:40]}'.")
    return "" if float(text) == 100 else f" SAMPLE {text} PERCENT"
