"""Test contracts for authors of schedulers and job hooks, with a fake clock and a fake gateway."""
