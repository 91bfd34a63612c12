"""Streaming jobs: their owner, their lifecycle, and the port to the engine; see README.md."""
