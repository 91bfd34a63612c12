"""Statements that become streaming jobs or compiled plans, and those about jobs."""
