"""Iceberg tables: read without a Spark job, changed on a branch, and committed by compare-and-set.

This package does not depend on refreshes.
"""
