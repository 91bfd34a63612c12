"""Plans of streaming statements: their operators, what each keeps and for how long, and their JSON. Pure."""
