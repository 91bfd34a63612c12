"""Runs: the ledger of refreshes, and the schedule times that each of them covers."""
