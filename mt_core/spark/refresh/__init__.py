"""The engine of refreshes: its roles, and what they share."""
