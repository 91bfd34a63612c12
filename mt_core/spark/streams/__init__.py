"""Streaming jobs on Spark: Structured Streaming queries, their sources, operators and checkpoints."""
