"""The seam to workflow schedulers (FLIP-448)."""
