"""State of users' own processors with FLIP-24 TTL policies, on top of Spark's transformWithState."""
