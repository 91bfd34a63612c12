"""Upkeep: reconciliation after crashes, expiry, compaction, checks, and the leases of gateways."""
