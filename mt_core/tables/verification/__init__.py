"""Verification: whether the rows of a table are those of its query at the versions
that its refreshes have read.
"""
