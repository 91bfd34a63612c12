"""Spark: one driver, the statements and refreshes that run on it, and the tables that they write."""
