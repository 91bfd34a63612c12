"""Streams on Spark: streaming INSERTs, carried out by Structured Streaming,
exactly once into Iceberg's tables.
"""
