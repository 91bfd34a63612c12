"""Job status hooks of the gateway itself."""
