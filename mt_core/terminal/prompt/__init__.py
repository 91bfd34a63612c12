"""The prompt and its commands."""
