"""Benchmarks: one module per question, run by `make bench`; README.md explains the method."""
