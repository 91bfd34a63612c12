"""Contracts that authors of schedulers and of job hooks test them with; a clock and a gateway for that."""
