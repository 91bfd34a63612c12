"""Execution of session statements: Spark sessions, protected tables and results."""
