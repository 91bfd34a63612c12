"""What an author of a scheduler tests it with: the contract, a clock and a gateway."""
