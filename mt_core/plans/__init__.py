"""Plans of streaming statements: their operators, what each keeps and for how long. Pure."""
