"""Kafka: `source` reads topics, `sink` writes them by a stream, `insert` by an INSERT."""
