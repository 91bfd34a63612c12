"""The driver: Spark's JVM and its jars, settings, jobs and failures; started, watched, and restarted."""
