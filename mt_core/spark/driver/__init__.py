"""The Spark driver: its JVM with jars, settings, jobs and failures, supervised and restarted."""
