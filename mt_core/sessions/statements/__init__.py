"""Statement handlers: dispatch to the session, the materialized tables or Spark."""
