"""The charts of a table: its staleness and its refreshes over time, drawn and in words."""
