"""Upkeep: what makes the registry, the scheduler and the storage agree again."""
