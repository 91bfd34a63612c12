"""Sinks of streams, a module for each kind: `sink` is what all have in common,
`kinds` says which table is of which kind.
"""
