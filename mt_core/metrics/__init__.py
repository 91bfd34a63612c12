"""Metrics: what monitoring systems read of the gateway at /metrics."""
