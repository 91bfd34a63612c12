"""The Kafka connector: `source` reads topics, `sink` writes them from streams, `insert` from INSERT."""
