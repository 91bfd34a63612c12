"""Output of results as text and files."""
