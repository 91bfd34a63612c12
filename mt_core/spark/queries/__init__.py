"""Queries: what they read, what they mean, and at which versions."""
