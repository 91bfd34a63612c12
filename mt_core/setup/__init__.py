"""Setup and monitoring of an installation: `freshtable doctor`, `init` and `status`."""
