"""The driver: Spark's JVM, started, watched, and started again."""
