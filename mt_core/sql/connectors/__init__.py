"""Tables with a connector and their options, translated to Spark."""
