"""Streaming jobs: who owns one, what happens to it next, and what is asked of the engine; see README.md."""
