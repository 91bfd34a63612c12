"""Kafka: its jars, tables over its topics in a session, and the records that rows become."""
