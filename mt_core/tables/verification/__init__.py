"""Verification: whether a table has the rows of its query at the source versions that its refreshes read."""
