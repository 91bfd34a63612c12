"""Continuous refresh: what finds changed sources, the claim under which batches publish what changed,
and their threads.
"""
