"""The full-screen viewer of results."""
