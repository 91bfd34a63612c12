"""Query results: from Spark partitions to Arrow and JSON pages."""
