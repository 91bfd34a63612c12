"""Small modules that know nothing about tables: names, messages, secrets, rows and tokens."""
