"""Benchmarks: one module for each question, run by `make bench`. README.md explains the method."""
