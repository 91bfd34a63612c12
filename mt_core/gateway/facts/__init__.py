"""The JSON resources under /freshtable/v1, the facts about tables, refreshes, jobs and sessions."""
