"""Views: the rows and descriptions that SHOW and DESCRIBE return."""
