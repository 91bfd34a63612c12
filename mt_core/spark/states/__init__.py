"""Kept states of the stages of queries."""
