"""Views: the rows and texts that SHOW and DESCRIBE return."""
