"""What visitors of the page can do: to refresh, suspend, resume and verify tables, and to cancel jobs."""
