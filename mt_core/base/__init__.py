"""Small modules that know nothing about tables: names, texts, secrets, rows and tokens."""
