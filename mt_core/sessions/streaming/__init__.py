"""Statements about streaming jobs and compiled plans."""
