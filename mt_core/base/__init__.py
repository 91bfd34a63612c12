"""Small modules that know nothing of tables: names, texts, secrets, rows, tokens,
and how they are written.
"""
