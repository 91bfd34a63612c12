"""JSON schemas in tests."""

from __future__ import annotations

from typing import Any


def without_others(schema: Any) -> Any:
    """Return *schema* without room for members that it does not list."""
    if isinstance(schema, list):
        return [without_others(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    stricter = {name: without_others(each) for name, each in schema.items()}
    return stricter | ({"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {})
