"""Refresh workflows: their state in the scheduler, compared with the state of their tables."""
