"""Commands: CREATE, ALTER, SUSPEND, RESUME and DROP, each a sequence of intents; and their EXPLAIN."""
