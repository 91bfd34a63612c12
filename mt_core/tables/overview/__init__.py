"""The overview: what is known about all materialized tables, in memory."""
