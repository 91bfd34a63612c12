"""Keyed state for users' processors in Spark's transformWithState, with the TTL policies of FLIP-24."""

from mt_core.plans.policies import TtlPolicy, TtlTimeCharacteristic, TtlUpdateEvent
from mt_core.spark.streams.state.key_times import KeyTimes
from mt_core.spark.streams.state.list_state import PolicyListState
from mt_core.spark.streams.state.map_state import PolicyMapState
from mt_core.spark.streams.state.processor import KeyedProcessor, transform_with_state
from mt_core.spark.streams.state.states import States, Timers
from mt_core.spark.streams.state.value_state import PolicyValueState

__all__ = [
    "KeyTimes",
    "KeyedProcessor",
    "PolicyListState",
    "PolicyMapState",
    "PolicyValueState",
    "States",
    "Timers",
    "TtlPolicy",
    "TtlTimeCharacteristic",
    "TtlUpdateEvent",
    "transform_with_state",
]
