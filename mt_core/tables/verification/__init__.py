"""Verification: whether a table contains the rows of its query at the source versions that were read."""
