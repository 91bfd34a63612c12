from __future__ import annotations

import pytest

from mt_core.spark.driver.failures import Thrown
from mt_core.spark.streams.operators.foreign_state import foreign_state

SCHEMAS = """[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state value schema.
Please check number and type of fields.
Existing value_schema=StructType(a) and new value_schema=StructType(b).
If you want to force running the query without schema validation, please set stateSchemaCheck to false.
However, please note that running the query with incompatible schema could cause non-deterministic behavior. SQLSTATE: XXKST"""  # noqa: E501
TIME = (
    "[STATE_STORE_INVALID_CONFIG_AFTER_RESTART] Cannot change timeMode "
    "from ProcessingTime to EventTime between restarts. Please "
    "set timeMode to ProcessingTime, or restart with a new checkpoint directory. SQLSTATE: 42K06"
)


@pytest.mark.parametrize(
    ("condition", "message", "detail"),
    [
        (
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
            SCHEMAS,
            "Existing value_schema=StructType(a) and new value_schema=StructType(b).",
        ),
        (
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            TIME.replace("EventTime", "None"),
            "Cannot change timeMode from ProcessingTime to None between restarts.",
        ),
    ],
)
def test_a_state_of_other_operators_is_said_with_what_differs_and_without_a_way_to_read_it_all_the_same(
    condition: str, message: str, detail: str
) -> None:
    causes = [
        Thrown(java_class="a.Failed", message="failed"),
        Thrown(java_class="b.C", message=message, condition=condition),
    ]

    error = foreign_state(causes)

    assert str(error) == (
        "The checkpoint of the job has the state of other operators, which this query cannot read. "
        f"{detail} Start from a savepoint of a job with the same operators, "
        "or RESET 'execution.savepoint.path' and run the statement again: its new job starts without state."
    )


def test_a_changed_time_of_a_ttl_is_said_in_the_words_of_the_statement() -> None:
    error = foreign_state(
        [Thrown(java_class="b.C", message=TIME, condition="STATE_STORE_INVALID_CONFIG_AFTER_RESTART")]
    )

    assert str(error) == (
        "The time of a TTL was changed from PROCESSING TIME to EVENT TIME, "
        "and the entries in the checkpoint of the job expire by "
        "PROCESSING TIME. Use PROCESSING TIME again, in the hint STATE_TTL or as `time` in the plan, or "
        "RESET 'execution.savepoint.path' and run the statement again: its new job starts without state."
    )


def test_any_other_error_says_nothing_of_the_state() -> None:
    assert (
        foreign_state(
            [Thrown(java_class="a.Failed", message=SCHEMAS), Thrown(java_class="b.C", message="no")]
        )
        is None
    )
