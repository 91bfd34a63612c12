"""Tables with a connector and their options, in the words of Spark."""
