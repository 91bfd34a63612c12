"""The Spark driver: its JVM with jars, settings, jobs and failures, which is supervised and restarted."""
