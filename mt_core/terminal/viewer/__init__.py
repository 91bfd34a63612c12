"""The viewer of results, which fills the screen."""
