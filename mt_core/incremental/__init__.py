"""Rules of incremental maintenance, without Spark: query shapes, source changes and strategies."""
