"""The refresh engine on Spark: storage, metadata, writes, comparisons, source changes and housekeeping."""
