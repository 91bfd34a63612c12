"""The SQL client in a terminal."""
