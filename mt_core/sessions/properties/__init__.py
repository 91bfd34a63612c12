"""The properties of a session, and the values that they accept."""
