"""Refreshes: from a request to the publish."""
