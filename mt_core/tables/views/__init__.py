"""Views: what SHOW, DESCRIBE and EXPLAIN answer."""
