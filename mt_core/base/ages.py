"""Ages and delays as text for users."""

from __future__ import annotations

from datetime import timedelta


def age_text(age: timedelta) -> str:
    """Format a duration in the largest unit in which it is at least two."""
    seconds = int(age.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172800 else f"{seconds // 86400} d"
