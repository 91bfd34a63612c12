"""The Kafka connector: `source` reads topics, `sink` writes them from streams, and `insert` from INSERT."""
