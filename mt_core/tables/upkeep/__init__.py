"""Upkeep: reconciliation after a crash, expiry, compaction, checks, and the leases of gateways."""
