"""Upkeep: reconciling after a crash, expiry, compaction, checks, and the leases of gateways."""
