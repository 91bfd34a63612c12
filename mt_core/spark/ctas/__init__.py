"""Tables that a query creates."""
