"""Compiled plans of streaming statements: operators, their states and TTLs, and the JSON form. Pure."""
