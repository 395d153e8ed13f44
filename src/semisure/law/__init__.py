"""The error law of a match: the mixture, its ablations, its fit, and one pair's."""
