"""Statements of sessions: each session's own Spark session, and what may run in it."""
