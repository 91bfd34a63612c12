"""The driver: Spark's JVM, started, watched, and restarted."""
