"""Connectors for Kafka, JDBC databases, files and generated rows; `sink` is the interface of all sinks."""
