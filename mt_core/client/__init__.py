"""The client side of the gateway: HTTP calls, and rows as people and programs read them."""
