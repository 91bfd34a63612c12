"""The rows of the relations that a query reads, at a version and between two versions."""
