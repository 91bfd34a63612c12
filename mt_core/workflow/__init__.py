"""The interface to workflow schedulers (FLIP-448)."""
