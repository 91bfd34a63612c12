"""Connectors: what reads and writes Kafka, databases, files and generated rows;
`sink` is what all that write have in common.
"""
