"""Statements that become streaming jobs or compiled plans."""
