"""Iceberg tables: read without a Spark job, and changed by commits that move branches.

This package does not depend on refreshes.
"""
