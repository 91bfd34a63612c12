"""Results: from Spark's partitions to Arrow and JSON pages."""
