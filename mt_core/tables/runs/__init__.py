"""Runs: the ledger of refreshes, and which schedule times each of them takes."""
