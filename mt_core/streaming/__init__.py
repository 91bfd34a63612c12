"""Streaming jobs: their owner, their lifecycle, and the port to the engine. See README.md."""
