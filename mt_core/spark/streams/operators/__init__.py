"""Operators of our own in the queries of streams: the statements that become them,
and the state that they keep.
"""
