"""Jobs of statements that change data: their store, their ends, and the hooks that are called at them."""
