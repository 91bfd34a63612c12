"""Functions of users in Spark's sessions."""
