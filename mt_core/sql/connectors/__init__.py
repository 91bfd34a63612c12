"""CREATE TABLE with a connector and its options, translated to Spark."""
