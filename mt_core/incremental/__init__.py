"""Incremental maintenance, pure: the shape of a query, what happened to its sources,
and what a refresh does about it.
"""
