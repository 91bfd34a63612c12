"""The Kafka connector: `source` reads topics, `sink` writes rows of streams, `insert` rows of INSERT."""
