"""Rules of incremental refreshes, without Spark: query shapes, source changes and strategies."""
