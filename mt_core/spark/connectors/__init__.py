"""What is read and written by a connector: Kafka, JDBC, files, generated rows."""
