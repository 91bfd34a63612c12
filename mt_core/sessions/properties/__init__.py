"""Properties of a session: which exist, and which values they take."""
