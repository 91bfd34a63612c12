"""Workflow schedulers that come with the distribution; each is found by its entry point, like anyone's."""
