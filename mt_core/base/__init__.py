"""Small modules without knowledge of tables: names, texts, secrets, rows and tokens."""
