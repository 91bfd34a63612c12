"""Refresh workflows: their state in the scheduler beside the state of their tables."""
