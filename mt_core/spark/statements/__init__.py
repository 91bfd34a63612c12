"""Execution of the statements of sessions: Spark sessions, protected tables and results."""
