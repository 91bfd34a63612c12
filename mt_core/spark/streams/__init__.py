"""Streaming jobs on Spark: queries of Structured Streaming, their sources, operators and checkpoints."""
