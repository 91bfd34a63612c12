"""Continuous refresh: the source watcher, the runs that publish batches of changes, and their threads."""
