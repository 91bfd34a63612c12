"""User-defined functions in Spark's sessions."""
