"""Query results: from Spark partitions to pages of Arrow and JSON."""
